import { askInLines, firstIdOf, textOf } from '../ask.ts'
import type { Attack } from '../attack.ts'

/** As long as a prompt may be, of random text, so that no table makes it smaller. */
const PROMPT = Array.from({ length: 1_000 }, () => crypto.randomUUID().slice(0, 32)).join('')
const LINES = 16

export const cancelledVideos: Attack = {
  name: 'cancelled videos',
  about:
    '16 videos at a time that are created with a prompt of 32,000 characters and cancelled; each left 1.2 KB for ever.',
  run: (target, signal) =>
    askInLines(target, signal, {
      lines: LINES,
      prepare: async (ask) => firstIdOf((await ask('GET', '/models?modality=video')).json) ?? 'none',
      async work(ask, model) {
        const id = textOf((await ask('POST', '/videos', { model, prompt: PROMPT })).json, 'id')
        if (id !== null) await ask('POST', `/videos/${id}/cancel`)
      },
    }),
}
