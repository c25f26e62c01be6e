import { afterAll, expect, test } from 'bun:test'
import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startLiveCatalog } from '../catalog/watch.ts'
import { systemClock } from '../infra/clock.ts'
import type { Log } from '../lib/log.ts'
import { SECOND_MS, sleep } from '../lib/time.ts'
import { loadConfig } from './config.ts'

const directory = mkdtempSync(join(tmpdir(), 'tollgate-watch-'))
afterAll(() => rmSync(directory, { recursive: true, force: true }))
const path = join(directory, 'tollgate.yaml')

const file = (ownedBy: string) => `owned_by: ${ownedBy}\n`
const quiet: Log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }

test('a real file that is written, truncated and renamed into place is followed', async () => {
  writeFileSync(path, file('a'))
  const loaded = await loadConfig({}, {}, directory)
  if (!loaded.ok) throw new Error(loaded.problems.join())
  const { settings, source, stamp } = loaded.config
  const live = await startLiveCatalog({
    clock: systemClock,
    log: quiet,
    settings,
    source,
    stamp,
    discovered: [],
    beforeActivate: async () => {},
    afterActivate: () => {},
  })
  const owner = () => live.current().models[0]?.ownedBy
  /** As long as a busy machine may need; a poll is a second. */
  const until = async (wanted: string) => {
    for (let tries = 0; tries < 300 && owner() !== wanted; tries += 1) await sleep(systemClock, SECOND_MS / 10)
    expect(owner()).toBe(wanted)
  }
  writeFileSync(path, file('b'))
  await until('b')
  writeFileSync(path, '')
  writeFileSync(path, file('c'))
  await until('c')
  writeFileSync(join(directory, 'next'), file('d'))
  renameSync(join(directory, 'next'), path)
  await until('d')
  rmSync(path)
  writeFileSync(path, 'owned_by: [')
  await sleep(systemClock, 3 * SECOND_MS)
  expect(owner()).toBe('d')
  live.close()
}, 60_000)
