/** The things that the driver `process` refuses to start without, and the control groups that it uses where it can. */

import { afterEach, beforeEach, expect, test } from 'bun:test'
import { chmod, mkdir, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { NO_MACHINES_HERE } from '../../../../test/processMachines.ts'
import { SILENCE } from '../../../../test/silence.ts'
import { systemClock } from '../../../infra/clock.ts'
import { groupFiles, openControlGroups } from './controlGroups.ts'
import { findClash, type HostDependencies, openHost } from './host.ts'
import { isRunningOf } from './processTable.ts'

let folder: string
beforeEach(async () => {
  folder = await mkdtemp(NO_MACHINES_HERE === null ? '/var/lib/tollgate-test-' : join(tmpdir(), 'tollgate-host-'))
  await chmod(folder, 0o711)
})
afterEach(() => rm(folder, { recursive: true }))

const settings = () => ({
  ...{ directory: join(folder, 'machines'), firstUid: 1_400_000_000 },
  ...{ machinesMost: 2, tasksMost: 100, memoryBytes: 1_000_000_000 },
})
const machine: HostDependencies = { clock: systemClock, log: SILENCE, uid: 0, newPlace: () => 'test', hidden: [] }

test.if(process.platform === 'linux')('without root it says what to do', async () => {
  for (const uid of [1_000, undefined]) {
    await expect(openHost(settings(), { ...machine, uid })).rejects.toThrow(
      "instances.driver: 'process' starts each app under a user of its own, which takes root: start Tollgate as root",
    )
  }
})

test.if(NO_MACHINES_HERE === null)('users of this host, and folders with secrets, are refused', async () => {
  await expect(openHost({ ...settings(), firstUid: 0 }, machine)).rejects.toThrow(
    "root has 0; name another 'first_uid'",
  )
  for (const hidden of [folder, join(folder, 'machines/data'), join(folder, 'machines')]) {
    await expect(openHost(settings(), { ...machine, hidden: [hidden] })).rejects.toThrow("name another 'directory'")
  }
  const closed = join(folder, 'closed')
  await mkdir(closed, { mode: 0o700 })
  await expect(openHost({ ...settings(), directory: join(closed, 'machines') }, machine)).rejects.toThrow(
    `needs a folder that apps can reach, such as '/var/lib/tollgate-instances', and users other than root can't enter ${closed}: name another 'directory'`,
  )
  expect((await openHost(settings(), machine)).programs.flock).toStartWith('/')
})

const BOUNDS = { memoryBytes: 5_000_000, tcpBytes: 300_000, cpus: 1.5, tasks: 9 }

test('a control group bounds what it has controllers for', () => {
  expect(groupFiles(2, new Set(['memory', 'cpu', 'pids']), BOUNDS)).toEqual([
    ['memory.max', '5000000'],
    ['memory.swap.max', '0'],
    ['memory.oom.group', '1'],
    ['cpu.max', '150000 100000'],
    ['pids.max', '9'],
  ])
  expect(groupFiles(2, new Set(['pids']), BOUNDS)).toEqual([['pids.max', '9']])
  expect(groupFiles(1, new Set(['memory', 'cpu', 'pids']), BOUNDS)).toEqual([
    ['memory.limit_in_bytes', '5000000'],
    ['memory.memsw.limit_in_bytes', '5000000'],
    ['memory.kmem.tcp.limit_in_bytes', '300000'],
    ['cpu.cfs_period_us', '100000'],
    ['cpu.cfs_quota_us', '150000'],
    ['pids.max', '9'],
  ])
})

test('a tree that hands no controller on still has a group for each machine', async () => {
  const groups = await openControlGroups(`tmpfs /x tmpfs rw 0 0\ncgroup2 ${folder} cgroup2 rw 0 0\n`)
  expect([...(groups?.bounds ?? ['none'])]).toEqual([])
  expect(await groups?.make('m', BOUNDS)).toEqual([join(folder, 'tollgate-instances/m')])
})

test('trees of version 1 bound where version 2 does not, each once, and others can not list the machines', async () => {
  const at = (path: string) => join(folder, path)
  await mkdir(at('unified'))
  for (const [tree, file] of [
    ['memory', 'memory.limit_in_bytes'],
    ['cpu,cpuacct', 'cpu.cfs_quota_us'],
    ['pids', 'pids.max'],
  ]) {
    await mkdir(at(`${tree}/tollgate-instances`), { recursive: true })
    await writeFile(at(`${tree}/tollgate-instances/${file}`), '')
  }
  const first = ['memory', 'cpu,cpuacct', 'pids', 'devices', 'memory,other'].map(
    (each) => `cgroup ${at(each)} cgroup rw,${each} 0 0\n`,
  )
  const groups = await openControlGroups(`${first.join('')}cgroup2 ${at('unified')} cgroup2 rw 0 0\n`)
  expect([...(groups?.bounds ?? [])].sort()).toEqual(['cpu', 'memory', 'pids'])
  const made = ['unified', 'memory', 'cpu,cpuacct', 'pids'].map((each) => at(`${each}/tollgate-instances/m`))
  expect(await groups?.make('m', BOUNDS)).toEqual(made)
  expect(await readFile(at('cpu,cpuacct/tollgate-instances/m/cpu.cfs_quota_us'), 'utf8')).toBe('150000')
  expect((await stat(at('pids/tollgate-instances'))).mode & 0o777).toBe(0o700)
})

test.each([
  ['nobody', null, 'root:x:0:0::/root:/bin/sh\n', 'ann:100000:65536\nbob:165536:65536\n'],
  ['a user', 'ann has 300001', 'ann:x:300001:300001::/nonexistent:/bin/sh\n', ''],
  ['the containers of a user', 'bob has 65536 from 234466 on (/etc/subuid, /etc/subgid)', '', 'bob:234466:65536\n'],
  ['those of another, from its last id on', null, '', 'bob:234464:65536\n'],
  ['those of another, up to its first id', null, '', 'bob:300002:65536\n'],
])('an id of apps that %s has is found', (_who, clash, users, granted) => {
  expect(findClash({ firstUid: 300_000, machinesMost: 2 }, users, granted)).toBe(clash)
})

test('the user ids that the example and the docs name are free on a usual Debian', async () => {
  const users =
    'root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534::/nonexistent:/bin/false\nann:x:1000:1000::/nonexistent:/bin/sh\n'
  const granted = Array.from({ length: 50 }, (_, nth) => `user${nth}:${100_000 + nth * 65_536}:65536\n`).join('')
  const pages = ['tollgate.example.yaml', 'docs/instances.md'].map((path) =>
    join(import.meta.dirname, '../../../../..', path),
  )
  const texts = await Promise.all(pages.map((path) => readFile(path, 'utf8')))
  const named = texts.map((text) => Number(/first_uid: (\d+)/.exec(text)?.[1]))
  expect(new Set(named).size).toBe(1)
  for (const firstUid of named) expect(findClash({ firstUid, machinesMost: 8 }, users, granted)).toBeNull()
})

test('a process is over only when all its threads are', () => {
  const status = (state: string, threads: number, uid = 7) =>
    `Name:\tx\nState:\t${state}\nUid:\t${uid}\t1\t1\t1\nThreads:\t${threads}\n`
  expect(isRunningOf(7, status('S (sleeping)', 1))).toBe(true)
  expect(isRunningOf(7, status('Z (zombie)', 3))).toBe(true)
  expect(isRunningOf(7, status('Z (zombie)', 1))).toBe(false)
  expect(isRunningOf(7, status('X (dead)', 0))).toBe(false)
  expect(isRunningOf(7, status('S (sleeping)', 1, 70))).toBe(false)
  expect(isRunningOf(7, '')).toBe(false)
})

test('without a tree of control groups there are none', async () => {
  expect(await openControlGroups('tmpfs /sys/fs/cgroup tmpfs rw 0 0\n')).toBeNull()
  expect(await openControlGroups(`cgroup2 ${folder}/nothing/\0 cgroup2 rw 0 0\n`)).toBeNull()
})
