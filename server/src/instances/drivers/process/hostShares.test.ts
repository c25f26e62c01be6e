/** The shares of apps in things of which all of a host has a fixed number. */

import { expect, test } from 'bun:test'
import { filesOfProcess, filesWarning, readHostTotals } from './hostShares.ts'

test.each<[string, number, number, number, number]>([
  ['a host without a bound', 8, 512, 2 ** 63, 4_096],
  ['a large host', 8, 512, 40_000_000, 4_096],
  ['a host with less', 8, 512, 16_777_216, 2_048],
  ['a small host', 8, 512, 2_466_193, 1_024],
  ['a small host with few tasks', 8, 64, 2_466_193, 2_408],
  ['one machine', 1, 512, 2_466_193, 2_408],
])(
  'on %s all apps together open half of its files, and each process at least 1,024',
  (_, machinesMost, tasksMost, files, share) => {
    expect(filesOfProcess({ machinesMost, tasksMost }, { files })).toBe(share)
    const all = share * machinesMost * tasksMost
    expect(filesWarning({ machinesMost, tasksMost }, { files }) === null).toBe(all <= files / 2)
  },
)

test('where apps may open more than half of the files, the operator is told what to do', () => {
  expect(filesWarning({ machinesMost: 8, tasksMost: 512 }, { files: 2_466_193 })).toBe(
    'instances: all apps together may open 4194304 files, and this host has 2466193 for all programs: ' +
      "raise fs.file-max to 8388608 (sysctl), or lower 'tasks' or 'machines'",
  )
})

test.if(process.platform === 'linux')('the kernel tells of its totals', async () => {
  expect((await readHostTotals()).files).toBeGreaterThan(1_000)
})
