import { toHex } from '../kernel/ids.ts'
import { SECOND_MS, sleep } from '../kernel/time.ts'
import { callApi, openApi, SERVER_OPTION } from './api.ts'
import { type Command, CommandFailure, type Invocation, UsageFailure } from './command.ts'
import { createBar } from './progress.ts'
import type { Surroundings } from './surroundings.ts'

const VIDEOS = '/v1/videos'

/** Between two looks at a job. */
const LOOK_MS = SECOND_MS

interface Video {
  readonly id: string
  readonly model: string
  readonly status: 'queued' | 'in_progress' | 'completed' | 'failed' | 'cancelled' | 'expired'
  readonly progress: number
  readonly seconds: number
  readonly cost_cents: number | null
  readonly error: string | null
}

/** `tollgate video create PROMPT --model … --wait --output clip.mp4` */
export const createVideoCommand: Command = {
  words: ['video', 'create'],
  summary: 'Have a video made, and wait for it where asked to',
  argument: { name: 'PROMPT', summary: 'what it shows' },
  options: [
    {
      name: 'model',
      value: 'ID',
      summary: 'a video model, as GET /v1/models?modality=video lists them',
      required: true,
    },
    { name: 'seconds', value: 'N', summary: "how long; left out, the model's own length" },
    { name: 'size', value: 'WxH', summary: 'in pixels, where the model lets one choose' },
    { name: 'wait', value: null, summary: 'wait until it is complete, with a progress bar' },
    { name: 'output', value: 'FILE', summary: 'where to save the mp4; waits, too' },
    SERVER_OPTION,
  ],
  examples: ['tollgate video create "A toll gate at dawn" --model svc/sandbox-video --wait --output clip.mp4'],
  run: async (invocation, surroundings) => {
    const seconds = invocation.text('seconds')
    if (seconds !== undefined && !/^[1-9]\d{0,4}$/.test(seconds)) {
      throw new UsageFailure('--seconds: must be a whole number from 1, such as 4')
    }
    const size = invocation.text('size')
    const output = invocation.text('output')
    const made = (await callApi(invocation, surroundings, {
      method: 'POST',
      path: VIDEOS,
      body: {
        model: invocation.required('model'),
        prompt: invocation.argument,
        ...(seconds !== undefined && { seconds: Number(seconds) }),
        ...(size !== undefined && { size }),
      },
      headers: { 'Idempotency-Key': toHex(surroundings.randomBytes(16)) },
    })) as Video
    if (!invocation.flag('wait') && output === undefined) {
      return { json: made, text: `Video ${made.id} is ${made.status}: GET ${VIDEOS}/${made.id} tells how it goes.\n` }
    }
    const video = await waitFor(invocation, surroundings, made)
    if (video.status !== 'completed') throw new CommandFailure(endOf(video))
    if (output !== undefined) await download(invocation, surroundings, video, output)
    const saved = output === undefined ? '' : ` It is in ${output}.`
    return {
      json: { ...video, ...(output !== undefined && { output }) },
      text: `Video ${video.id}: ${video.seconds} s, ${video.cost_cents} cents.${saved}\n`,
    }
  },
}

async function waitFor(invocation: Invocation, surroundings: Surroundings, made: Video): Promise<Video> {
  const bar = surroundings.stderrIsTerminal && !invocation.json ? createBar(surroundings) : null
  let video = made
  try {
    while (video.status === 'queued' || video.status === 'in_progress') {
      bar?.draw(video.progress / 100, video.status === 'queued' ? 'waiting for its turn' : 'being made')
      await sleep(surroundings.clock, LOOK_MS)
      const path = `${VIDEOS}/${encodeURIComponent(made.id)}`
      video = (await callApi(invocation, surroundings, { method: 'GET', path })) as Video
    }
    return video
  } finally {
    bar?.end()
  }
}

function endOf({ id, status, error }: Video): string {
  if (status === 'failed') return `video ${id} has failed (${error}); nothing was charged: create it again`
  return `video ${id} is ${status}; nothing was charged`
}

async function download(invocation: Invocation, surroundings: Surroundings, { id }: Video, output: string) {
  const path = `${VIDEOS}/${encodeURIComponent(id)}/content`
  const response = await openApi(invocation, surroundings, { method: 'GET', path }, new AbortController().signal)
  if (response.body === null) throw new CommandFailure(`the server sent nothing for video ${id}: try again`)
  await surroundings.saveFile(output, response.body).catch((error: unknown) => {
    const reason = error instanceof Error ? error.message : String(error)
    throw new CommandFailure(`${output} can't be written: ${reason}; the video is kept for 24 hours`)
  })
}
