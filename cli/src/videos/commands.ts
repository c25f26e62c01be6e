import { facts, table } from '../../../server/src/lib/table.ts'
import { dollars } from '../account/balance.ts'
import { callApi } from '../api.ts'
import { askOnce, chosenKey, keyOption, sameCommand } from '../askOnce.ts'
import type { CliCommand, CliOption, CommandLine } from '../command.ts'
import { CliFailure } from '../failure.ts'
import type { System } from '../system.ts'
import { wholeNumberOf } from '../values.ts'
import { checkOutput, followVideo } from './follow.ts'
import { type ShownVideo, VIDEOS, videoPath } from './video.ts'

const OUTPUT: CliOption = {
  name: 'output',
  value: 'FILE',
  summary: 'the file to save the mp4 to; replaces an existing file',
}

/** Of a page of the server's. */
const VIDEOS_MAX = 100
/** No model makes longer clips; the server has the model's own bound. */
const SECONDS_MAX = 99_999

const ID = { name: 'ID', summary: 'the video\'s id, as "tollgate video create" shows it' }

/** `tollgate video create PROMPT --model … --wait --output clip.mp4` */
export const createVideoCommand: CliCommand = {
  words: ['video', 'create'],
  summary: 'Create a video, and wait for it if asked',
  argument: { name: 'PROMPT', summary: 'what it shows' },
  options: [
    {
      name: 'model',
      value: 'ID',
      summary: 'a video model, as "tollgate models --modality video" lists them',
      isRequired: true,
    },
    { name: 'seconds', value: 'N', summary: "its length; left out: the model's default" },
    { name: 'size', value: 'WxH', summary: 'its size in pixels, for models with a choice of sizes' },
    { name: 'wait', value: null, summary: 'wait until it is complete; Ctrl-C stops the waiting, not the video' },
    { ...OUTPUT, summary: `${OUTPUT.summary}; implies --wait` },
    keyOption('finds the same video for 24 hours and is charged once'),
  ],
  examples: ['tollgate video create "A toll gate at dawn" --model svc/sandbox-video --output clip.mp4'],
  run: async (args, system) => {
    const seconds = wholeNumberOf(args, 'seconds', SECONDS_MAX)
    const size = args.text('size')
    await checkOutput(args, system)
    const key = chosenKey(args, system)
    const again = sameCommand(createVideoCommand, args, key)
    const { body } = await askOnce(args, system, {
      method: 'POST',
      path: VIDEOS,
      body: {
        model: args.required('model'),
        prompt: args.argument,
        ...(seconds !== undefined && { seconds }),
        ...(size !== undefined && { size }),
      },
      idempotencyKey: key,
      isShort: true,
      left: 'left the video, which the server may have accepted',
      advice: `if the video was accepted, ${again} finds it within 24 hours, and is charged for no second one`,
    })
    const made = body as ShownVideo
    if (args.flag('wait') || args.text('output') !== undefined) {
      return await followVideo(args, system, made)
    }
    const next = `"tollgate video wait ${made.id} --output clip.mp4" waits for it`
    return { json: made, text: `Video ${made.id} is ${made.status}: ${next}.\n` }
  },
}

/** `tollgate video wait ID --output clip.mp4` */
export const waitForVideoCommand: CliCommand = {
  words: ['video', 'wait'],
  summary: 'Wait for a video that was created before, and save it',
  argument: ID,
  options: [OUTPUT],
  examples: ['tollgate video wait 01920e4c-7c00-7c3a-9d5e-0a6f4f1b2c3d --output clip.mp4'],
  run: async (args, system) => {
    await checkOutput(args, system)
    return await followVideo(args, system, await readVideo(args, system))
  },
}

/** `tollgate video download ID --output clip.mp4` */
export const downloadVideoCommand: CliCommand = {
  words: ['video', 'download'],
  summary: 'Save the mp4 of a video that is complete',
  argument: ID,
  options: [{ ...OUTPUT, isRequired: true }],
  examples: ['tollgate video download 01920e4c-7c00-7c3a-9d5e-0a6f4f1b2c3d --output clip.mp4'],
  run: async (args, system) => {
    await checkOutput(args, system)
    const video = await readVideo(args, system)
    if (video.status === 'queued' || video.status === 'in_progress') {
      const wait = `"tollgate video wait ${video.id} --output ${args.required('output')}" waits for it`
      throw new CliFailure(`video ${video.id} is not complete: ${wait}`)
    }
    return await followVideo(args, system, video)
  },
}

/** `tollgate video get ID` */
export const showVideoCommand: CliCommand = {
  words: ['video', 'get'],
  summary: 'Show the state of a video',
  argument: ID,
  options: [],
  examples: ['tollgate video get 01920e4c-7c00-7c3a-9d5e-0a6f4f1b2c3d --json'],
  run: async (args, system) => {
    const video = await readVideo(args, system)
    const { status, model, progress, seconds, cost_cents: cents, error } = video
    const rows: [string, string][] = [
      ['Status', status === 'in_progress' ? `in progress, ${progress}%` : status],
      ['Model', model],
      ['Seconds', String(seconds)],
      ['Cost', cents === null ? notCharged(status) : dollars(cents)],
      ...(error === null ? [] : ([['Error', error]] satisfies [string, string][])),
    ]
    return { json: video, text: facts(rows) }
  },
}

function notCharged(status: ShownVideo['status']): string {
  return status === 'queued' || status === 'in_progress' ? 'not charged yet' : 'not charged'
}

/** `tollgate video list` */
export const listVideosCommand: CliCommand = {
  words: ['video', 'list'],
  summary: "List the organization's videos, newest first",
  options: [
    { name: 'limit', value: 'N', summary: `how many, up to ${VIDEOS_MAX}; 20 when left out` },
    { name: 'after', value: 'ID', summary: 'the last id of the page before' },
  ],
  examples: ['tollgate video list', 'tollgate video list --json --limit 100'],
  run: async (args, system) => {
    const query = new URLSearchParams({ limit: String(wholeNumberOf(args, 'limit', VIDEOS_MAX) ?? 20) })
    const after = args.text('after')
    if (after !== undefined) query.set('after', after)
    const page = (await callApi(args, system, { method: 'GET', path: `${VIDEOS}?${query}` })) as VideoPage
    const rows = page.data.map((video) => [
      video.id,
      video.status,
      video.model,
      video.cost_cents === null ? '-' : dollars(video.cost_cents),
    ])
    const last = page.has_more ? page.data.at(-1) : undefined
    const more = last === undefined ? '' : `There are more: --after ${last.id} shows them.\n`
    const none = 'There are no videos: make one with "tollgate video create PROMPT --model ID".'
    return { json: page, text: table(['ID', 'STATUS', 'MODEL', 'COST'], rows, none, system.stdoutColumns) + more }
  },
}

interface VideoPage {
  readonly data: readonly ShownVideo[]
  readonly has_more: boolean
}

async function readVideo(args: CommandLine, system: System): Promise<ShownVideo> {
  return (await callApi(args, system, { method: 'GET', path: videoPath(args.argument) })) as ShownVideo
}

/** `tollgate video cancel ID` */
export const cancelVideoCommand: CliCommand = {
  words: ['video', 'cancel'],
  summary: 'Cancel a video that is not complete, free of charge',
  argument: ID,
  options: [],
  examples: ['tollgate video cancel 01920e4c-7c00-7c3a-9d5e-0a6f4f1b2c3d'],
  run: async (args, system) => {
    const path = `${videoPath(args.argument)}/cancel`
    const video = (await callApi(args, system, { method: 'POST', path })) as ShownVideo
    const { id, status } = video
    if (status !== 'cancelled') {
      const why = status === 'in_progress' ? 'its clip is already made' : `it is ${status}`
      throw new CliFailure(`video ${id} can't be cancelled any more: ${why}`)
    }
    return { json: video, text: `Cancelled video ${id}; nothing was charged.\n` }
  },
}
