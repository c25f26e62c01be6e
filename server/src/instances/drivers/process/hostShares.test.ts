/** The shares of apps in things of which all of a host has a fixed number. */

import { expect, test } from 'bun:test'
import { filesOfProcess, filesWarning, readHostTotals, tcpBytesOfApp, tcpWarning } from './hostShares.ts'

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
    expect(filesOfProcess({ machinesMost, tasksMost }, { files, tcpBytes: 0 })).toBe(share)
    const all = share * machinesMost * tasksMost
    expect(filesWarning({ machinesMost, tasksMost }, { files, tcpBytes: 0 }) === null).toBe(all <= files / 2)
  },
)

test('where apps may open more than half of the files, the operator is told what to do', () => {
  expect(filesWarning({ machinesMost: 8, tasksMost: 512 }, { files: 2_466_193, tcpBytes: 0 })).toBe(
    'instances: all apps together may open 4194304 files, and this host has 2466193 for all programs: ' +
      "raise fs.file-max to 8388608 (sysctl), or lower 'tasks' or 'machines'",
  )
})

test.each<[string, number, number, number, number]>([
  ['a sixteenth of its memory', 8, 4_096e6, 16e9, 256e6],
  ['less where all apps together had more than half of the host’s', 8, 4_096e6, 2_358_484_992, 147_405_312],
  ['16 MiB at least', 8, 128e6, 16e9, 16_777_216],
  ['16 MiB at least, though all apps together then have more', 100, 128e6, 2_358_484_992, 16_777_216],
])('the connections of an app may take %s', (_, machinesMost, memoryBytes, tcpBytes, share) => {
  const machines = { machinesMost, memoryBytes }
  expect(tcpBytesOfApp(machines, { files: 0, tcpBytes })).toBe(share)
  expect(tcpWarning(machines, { files: 0, tcpBytes }) === null).toBe(share * machinesMost <= tcpBytes / 2)
})

test('where connections of apps may take more than half of the memory of TCP, the operator is told what to do', () => {
  expect(tcpWarning({ machinesMost: 100, memoryBytes: 128e6 }, { files: 0, tcpBytes: 2_358_484_992 })).toBe(
    'instances: connections of all apps together may take 1677721600 bytes, and this host has 2358484992 for all of TCP: ' +
      "raise the last number of net.ipv4.tcp_mem to 819200 (sysctl), or lower 'machines'",
  )
})

test.if(process.platform === 'linux')('the kernel tells of its totals', async () => {
  const { files, tcpBytes } = await readHostTotals()
  expect(files).toBeGreaterThan(1_000)
  expect(tcpBytes).toBeGreaterThan(1_000_000)
})
