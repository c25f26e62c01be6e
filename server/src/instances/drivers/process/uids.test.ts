/** A user id is one machine's at a time, also where a deletion that stood still goes on. The test of the driver needs root. */

import { describe, expect, test } from 'bun:test'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  listenerSpec,
  NO_MACHINES_HERE,
  nextMachineName,
  onThisHost,
  openProcessMachines,
  useProcessMachines,
} from '../../../../test/processMachines.ts'
import { systemClock } from '../../../infra/clock.ts'
import { findPrograms } from './host.ts'
import { END_LOOK_MS } from './processDriver.ts'
import { filesOf, type KeptSpec } from './spec.ts'
import { freeUid, takeUid, uidsOf } from './uids.ts'

test('an id is given back for the machine that has it, and for no other', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'tollgate-uids-'))
  const range = { firstUid: 7, machinesMost: 1 }
  expect(await takeUid(directory, 'one', range)).toBe(7)
  await freeUid(directory, 7, 'other')
  expect(await uidsOf(directory, 'one')).toEqual([7])
  expect(await takeUid(directory, 'other', range)).toBeNull()
  await freeUid(directory, 7, 'one')
  await freeUid(directory, 7, 'one')
  expect(await takeUid(directory, 'other', range)).toBe(7)
  await rm(directory, { recursive: true })
})

describe.skipIf(NO_MACHINES_HERE !== null)(onThisHost('a deletion'), () => {
  const never = new AbortController().signal
  const [left, next] = [nextMachineName(), nextMachineName()]
  const machines = useProcessMachines(() => openProcessMachines([], { machinesMost: 1 }))

  const uidOf = async (name: string) =>
    (JSON.parse(await readFile(filesOf(machines.settings.directory, name).spec, 'utf8')) as KeptSpec).uid

  /** Removes a machine, and starts another, which gets its user. */
  async function replace(): Promise<void> {
    while ((await machines.driver.list(never)).length > 0) await machines.driver.delete(left, never)
    await machines.start(next, listenerSpec())
  }

  test('that stood still while another process ended it does nothing to the next machine with that user', async () => {
    const stopped = machines.beside({
      reached: () => {
        throw new Error('the process stops here')
      },
    })
    await expect(stopped.create(left, listenerSpec(), never)).rejects.toThrow('stops here')
    const uid = await uidOf(left)
    const holder = spawn(
      findPrograms().flock,
      [filesOf(machines.settings.directory, left).lock, 'sh', '-c', 'echo held; read end'],
      {
        stdio: ['pipe', 'pipe', 'ignore'],
      },
    )
    await once(holder.stdout, 'data')
    let looks = 0
    const late = machines.beside({
      clock: {
        ...systemClock,
        after(delayMs, callback) {
          if (delayMs === END_LOOK_MS) looks += 1
          if (delayMs !== END_LOOK_MS || looks > 1) return systemClock.after(delayMs, callback)
          holder.stdin.end()
          void once(holder, 'exit').then(replace).then(callback)
          return () => {}
        },
      },
    })
    await late.delete(left, never)
    expect(looks).toBe(1)
    expect(await uidOf(next)).toBe(uid)
    expect(await machines.driver.status(next, never)).toMatchObject({ state: 'running' })
    expect(await uidsOf(machines.settings.directory, next)).toEqual([uid])
  })
})
