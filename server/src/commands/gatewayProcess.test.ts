/** Gateways of `serve --processes` that can't be started, or end before they serve. */

import { expect, test } from 'bun:test'
import { type ChildProcess, spawn } from 'node:child_process'
import { SILENCE } from '../../test/silence.ts'
import { systemClock } from '../infra/clock.ts'
import { GatewayProcess } from './gatewayProcess.ts'

/** Runs a process as the first of its group until it fails; returns the reason, and the process. */
async function failing(start: () => ChildProcess): Promise<{ reason: string; member: GatewayProcess }> {
  let fail: (reason: string) => void = () => {}
  const failed = new Promise<string>((resolve) => {
    fail = resolve
  })
  const member = new GatewayProcess(start, 0, systemClock, SILENCE, fail)
  void member.run(true)
  return { reason: await failed, member }
}

test.each([
  ['can not be started', '/nonexistent/program', /^a gateway process can not be started: ENOENT/],
  ['ends before it serves', process.execPath, /^a gateway process ends before it serves; the log says why$/],
])('one that %s fails the group, and holds up no stop', async (_what, program, why) => {
  const { reason, member } = await failing(() => spawn(program, ['-e', '0'], { stdio: ['pipe', 'pipe', 'ignore'] }))
  expect(reason).toMatch(why)
  await member.stop()
})
