/** Which test files run: those whose programs are there, and for `test:quick` those that start nothing. */

import { expect, test } from 'bun:test'
import { join } from 'node:path'
import { findTests, readClosures } from './closure.ts'
import { chooseRunnable } from './programs.ts'
import { chooseQuick } from './quick.ts'

const CHECKOUT = join(import.meta.dirname, '../../..')
const closures = readClosures(CHECKOUT)

test('without Redis the tests that reach it are skipped, however far away it is, and no others', async () => {
  const files = await findTests(CHECKOUT, { long: false })
  const { files: runnable, missing } = chooseRunnable(files, closures, (name) => name !== 'redis-server')
  expect(missing.map(({ program }) => program.name)).toEqual(['redis-server'])
  const skipped = missing[0]?.files ?? []
  expect(skipped).toContain('server/test/faults/idempotency.test.ts')
  expect(skipped).not.toContain('server/test/runner/choose.test.ts')
  expect([...runnable, ...skipped].sort()).toEqual([...files].sort())
})

test('with all programs nothing is skipped', async () => {
  const files = await findTests(CHECKOUT, { long: true })
  expect(chooseRunnable(files, closures, () => true)).toEqual({ files, missing: [] })
})

test('quick tests are those that bring in nothing that starts a process or a database', async () => {
  const files = await findTests(CHECKOUT, { long: false })
  const quick = chooseQuick(files, closures)
  expect(quick).toContain('server/test/runner/choose.test.ts')
  expect(quick).not.toContain('server/test/runner/gate.test.ts')
  expect(quick).not.toContain('server/test/faults/kill.test.ts')
})
