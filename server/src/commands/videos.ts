import { toHex } from '../kernel/ids.ts'
import { callApi, SERVER_OPTION } from './api.ts'
import { type Command, CommandFailure, type OptionSpec, UsageFailure } from './command.ts'
import { checkOutput, followVideo } from './followVideo.ts'
import { VIDEOS, type Video, videoPath } from './video.ts'

const OUTPUT: OptionSpec = {
  name: 'output',
  value: 'FILE',
  summary: 'where to save the mp4, in place of what is there',
}

const ID = { name: 'ID', summary: 'the video\'s id, as "tollgate video create" shows it' }

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
    { name: 'wait', value: null, summary: 'wait until it is complete; Ctrl-C leaves, and the video goes on' },
    { ...OUTPUT, summary: `${OUTPUT.summary}; waits, too` },
    SERVER_OPTION,
  ],
  examples: ['tollgate video create "A toll gate at dawn" --model svc/sandbox-video --output clip.mp4'],
  run: async (invocation, surroundings) => {
    const seconds = invocation.text('seconds')
    if (seconds !== undefined && !/^[1-9]\d{0,4}$/.test(seconds)) {
      throw new UsageFailure('--seconds: must be a whole number from 1, such as 4')
    }
    const size = invocation.text('size')
    await checkOutput(invocation, surroundings)
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
    if (invocation.flag('wait') || invocation.text('output') !== undefined) {
      return await followVideo(invocation, surroundings, made)
    }
    const next = `"tollgate video wait ${made.id} --output clip.mp4" waits for it`
    return { json: made, text: `Video ${made.id} is ${made.status}: ${next}.\n` }
  },
}

/** `tollgate video wait ID --output clip.mp4` */
export const waitForVideoCommand: Command = {
  words: ['video', 'wait'],
  summary: 'Wait for a video that was begun before, and save it',
  argument: ID,
  options: [OUTPUT, SERVER_OPTION],
  examples: ['tollgate video wait 01920e4c-7c00-7c3a-9d5e-0a6f4f1b2c3d --output clip.mp4'],
  run: async (invocation, surroundings) => {
    await checkOutput(invocation, surroundings)
    const path = videoPath(invocation.argument)
    const video = (await callApi(invocation, surroundings, { method: 'GET', path })) as Video
    return await followVideo(invocation, surroundings, video)
  },
}

/** `tollgate video cancel ID` */
export const cancelVideoCommand: Command = {
  words: ['video', 'cancel'],
  summary: 'End a video that is not complete; it costs nothing then',
  argument: ID,
  options: [SERVER_OPTION],
  examples: ['tollgate video cancel 01920e4c-7c00-7c3a-9d5e-0a6f4f1b2c3d'],
  run: async (invocation, surroundings) => {
    const path = `${videoPath(invocation.argument)}/cancel`
    const video = (await callApi(invocation, surroundings, { method: 'POST', path })) as Video
    const { id, status } = video
    if (status !== 'cancelled') {
      const why = status === 'in_progress' ? 'its clip is there already' : `it is ${status}`
      throw new CommandFailure(`video ${id} can't be cancelled any more: ${why}`)
    }
    return { json: video, text: `Cancelled video ${id}; nothing was charged.\n` }
  },
}
