import type { Attack } from '../attack.ts'
import { rawFlood } from '../flood.ts'

const AHEAD = 300
/** Answered 404 without a wait, as the request before them; no key is needed for either. */
const REQUESTS = 'GET /v1/nothing HTTP/1.1\r\nHost: gateway.test\r\n\r\n'.repeat(AHEAD)

export const pipelined: Attack = {
  name: 'pipelined requests',
  about:
    '100 connections that send 300 requests ahead once a second; 300 connections had another customer wait for 11.5 s.',
  run: (target, signal) =>
    rawFlood(target, signal, {
      connections: 100,
      path: '/nothing',
      head: 'Content-Length: 0',
      body: () => [REQUESTS],
    }),
}
