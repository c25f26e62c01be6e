import { askInLines, textOf } from '../ask.ts'
import type { Attack } from '../attack.ts'

const KEY = { scope: 'serverless:write' }
/** Goes on for 30 s, so that its key is revoked under it. */
const CALL = {
  model: 'svc/sandbox',
  messages: [{ role: 'user', content: 'x [[sandbox tokens=300 first_token_ms=0 tokens_per_second=10]]' }],
  stream: true,
}
const LINES = 8

export const revokedKeys: Attack = {
  name: 'revoked keys',
  about:
    '8 keys at a time that are made, begin two streams and are revoked under them: each revocation is told to all processes.',
  run: (target, signal) =>
    askInLines(target, signal, {
      lines: LINES,
      prepare: async () => null,
      async work(ask) {
        const { json } = await ask('POST', '/manage/v1/keys', KEY)
        const [id, key] = [textOf(json, 'id'), textOf(json, 'key')]
        if (id === null || key === null) return
        const streams = [0, 1].map(() => ask('POST', '/chat/completions', CALL, key))
        await ask('DELETE', `/manage/v1/keys/${id}`)
        await Promise.all(streams)
        // The streams above began before the revocation, or did not: this call is refused in any case.
        await ask('POST', '/chat/completions', CALL, key)
      },
    }),
}
