/** The sockets, system calls and devices that an app of the driver does not get, tried in one that is really started. Needs root. */

import { beforeAll, describe, expect, test } from 'bun:test'
import { existsSync } from 'node:fs'
import {
  askMachine,
  listenerSpec,
  NO_MACHINES_HERE,
  nextMachineName,
  onThisHost,
  useProcessMachines,
} from '../../../../test/processMachines.ts'
import type { DriverMachine } from '../driver.ts'

describe.skipIf(NO_MACHINES_HERE !== null)(onThisHost('an app'), () => {
  const machines = useProcessMachines()
  let machine: DriverMachine
  beforeAll(async () => {
    machine = await machines.start(nextMachineName(), listenerSpec())
  })

  async function json(path: string): Promise<Record<string, unknown>> {
    return (await askMachine(machine, path)).json()
  }

  test('opens sockets of Unix and streams of TCP alone, whose memory groups count, and no ring that opens others', async () => {
    expect((await json('/self'))['status']).toMatch(/^Seccomp:\t2$/m)
    const sockets = Object.entries(await json('/sockets'))
    expect(sockets.filter(([, told]) => told === 'open').map(([name]) => name)).toEqual([
      ...['unix', 'unixDatagram', 'unixSequence', 'inet', 'inet6', 'tcp', 'unixPair', 'unixDatagramPair'],
    ])
    expect(sockets.flatMap(([name, told]) => (told === 'refused' ? [name] : []))).toEqual([
      ...['mptcp', 'inetDatagram', 'inet6Datagram', 'ping', 'netlink', 'netlinkUsers', 'netlinkEvents'],
      ...['packet', 'crypto', 'vsock', 'netlinkPair', 'ring'],
    ])
  })

  test('has no keys, and none of the calls that know no namespaces', async () => {
    const ENOSYS = 38
    const calls = ['keyctl', 'add_key', 'request_key', 'io_setup', 'userfaultfd']
    calls.push('syslog', 'perf_event_open', 'fanotify_init', 'bpf', 'seccomp')
    expect(await json('/calls')).toEqual(Object.fromEntries(calls.map((name) => [name, ENOSYS])))
    const { file } = await json('/read?path=/proc/keys')
    // Those of the kernel are everybody's to look at.
    expect(`${file}`.split('\n').filter((line) => line !== '' && !/ (\.\w+|_ses): /.test(line))).toEqual([])
  })

  test('gives no filter to a socket or to itself: compiled ones share a small memory of the host', async () => {
    const [EINVAL, ENOPROTOOPT] = [22, 92]
    expect(await json('/filters')).toEqual({
      ...{ reuse: 'done', noDelay: 'done', name: 'done', systemCalls: EINVAL },
      ...{ filter: ENOPROTOOPT, program: ENOPROTOOPT, group: ENOPROTOOPT, groupProgram: ENOPROTOOPT },
    })
  })

  test('finds the device of nothing where this host has one of the hypervisor or of the kernel’s log', async () => {
    for (const name of ['kvm', 'vhost-net', 'vhost-vsock', 'vsock', 'userfaultfd', 'kmsg']) {
      const path = `/dev/${name}`
      const { file } = await json(`/read?path=${path}`)
      expect(`${path} reads ${file}`).toBe(`${path} reads ${existsSync(path) ? '' : 'ENOENT'}`)
    }
  })

  test('writes nothing into the log of this host', async () => {
    expect((await json('/dial?path=/dev/log'))['dialled']).not.toBe('open')
    const { file } = await json('/read?path=/dev/log')
    // Where it is a link into /run, it leads nowhere.
    expect(['', 'ENOENT']).toContain(file as string)
  })
})
