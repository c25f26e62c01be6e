/** The driver that runs apps on this host, with apps that are really started. Needs root. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:net'
import { getPriority, networkInterfaces } from 'node:os'
import { dirname, join } from 'node:path'
import type { MachineErrand } from '../../../../test/faults/machineWorker.ts'
import {
  askMachine,
  listenerSpec,
  NO_MACHINES_HERE,
  nextMachineName,
  onThisHost,
  openProcessMachines,
  useProcessMachines,
} from '../../../../test/processMachines.ts'
import { CreateRefused, type DriverMachine } from '../driver.ts'
import { openControlGroups } from './controlGroups.ts'
import { findPrograms } from './host.ts'
import { filesOfProcess, readHostTotals } from './hostShares.ts'
import { type KnownProcess, processesOf } from './processTable.ts'
import { filesOf, type KeptSpec } from './spec.ts'
import { sweeperFiles } from './sweeper.ts'

const WORKER = join(import.meta.dirname, '../../../../test/faults/machineWorker.ts')
const never = new AbortController().signal

describe.skipIf(NO_MACHINES_HERE !== null)(onThisHost('the driver'), () => {
  let secrets: string
  beforeAll(async () => {
    secrets = await mkdtemp('/var/lib/tollgate-test-secrets-')
  })
  const machines = useProcessMachines(() => openProcessMachines([secrets]))
  afterAll(() => rm(secrets, { recursive: true }))

  function started(spec = listenerSpec()): Promise<DriverMachine> {
    return machines.start(nextMachineName(), spec)
  }

  const filesFor = (name: string) => filesOf(machines.settings.directory, name)

  async function keptOf({ name }: { readonly name: string }): Promise<KeptSpec> {
    return JSON.parse(await readFile(filesFor(name).spec, 'utf8'))
  }

  /** Returns how often the app of a machine was started. */
  async function startsOf(name: string): Promise<number> {
    return (await readFile(join(filesFor(name).home, 'starts'), 'utf8')).split('\n').length - 1
  }

  async function json(machine: DriverMachine, path: string): Promise<Record<string, unknown>> {
    return (await askMachine(machine, path)).json()
  }

  async function removed(name: string): Promise<void> {
    do await machines.driver.delete(name, never)
    while ((await readdir(machines.settings.directory)).includes(name))
  }

  describe('an app', () => {
    let machine: DriverMachine
    let self: Record<string, unknown>
    const hostile = `a'; touch /tmp/x; $(id) \`id\` $& {port} "\n--evil`
    beforeAll(async () => {
      const { command } = listenerSpec()
      const words = ['orphan', '--model={model}', '{port}']
      machine = await started(listenerSpec([], { model: hostile, command: [...(command ?? []), ...words] }))
      self = await json(machine, '/self')
    })
    afterAll(() => removed(machine.name))

    test('has a user of its own, and no right', async () => {
      const { uid } = await keptOf(machine)
      expect(self).toMatchObject({ uid, groups: [], tty: 'ENXIO' })
      expect(self['status']).toMatch(/^CapEff:\t0+$[\s\S]*^CapBnd:\t0+$[\s\S]*^NoNewPrivs:\t1$/m)
    })

    test('gets the values of its spec whole, as words and variables, and nothing else of ours', async () => {
      expect(self['argv']).toEqual(['orphan', `--model=${hostile}`, '8080'])
      expect(self['env']).toEqual({
        ...{ PATH: expect.any(String), PORT: '8080', MODEL: hostile },
        HOME: filesFor(machine.name).home,
      })
    })

    test('is bounded in processes, memory, files and its share of the processors', async () => {
      const limits = String(self['limits'])
      expect(limits).toMatch(/^Max processes +200 +200 /m)
      const files = filesOfProcess(machines.settings, await readHostTotals())
      expect(limits).toMatch(new RegExp(`^Max open files +${files} +${files} `, 'm'))
      expect(limits).toMatch(/^Max core file size +1 +1 /m)
      expect(limits).toMatch(/^Max file size +1000000000 +1000000000 /m)
      const { groups } = await keptOf(machine)
      const inGroups = async (file: string) => {
        const texts = groups.map((group) => readFile(join(group, file), 'utf8').catch(() => ''))
        return (await Promise.all(texts)).join('').trim()
      }
      // The kernel counts in pages.
      const bound = (await inGroups('memory.max')) || (await inGroups('memory.limit_in_bytes'))
      if (bound === '') expect(limits).toMatch(/^Max data size +2000000000 +2000000000 /m)
      else expect(Math.abs(Number(bound) - 2_000_000_000)).toBeLessThan(65_536)
      const tcp = Number((await inGroups('memory.kmem.tcp.limit_in_bytes')) || 0)
      expect(tcp).toBeLessThanOrEqual(2_000_000_000 / 16)
      // 10 more than our own; the kernel knows none above 19.
      expect(await nicenessOf((await keptOf(machine)).uid)).toBe(`${Math.min(19, getPriority() + 10)}`)
    })

    test('gets no right in a user namespace, few terminals, and ends before the gateway when memory is out', async () => {
      const rights = await json(machine, '/rights')
      expect(rights).toMatchObject({ userNamespace: 1, outOfMemoryScore: '1000' })
      expect(rights['terminals'] as number).toBeLessThanOrEqual(64)
    })

    test('sees no names of other machines in control groups', async () => {
      for (const group of (await keptOf(machine)).groups) {
        expect(await json(machine, `/read?path=${dirname(group)}`)).toMatchObject({ folder: 'EACCES' })
      }
    })

    test('sees its own processes alone', () => {
      expect((self['processes'] as string[]).length).toBeLessThan(12)
    })

    test('reads and writes nothing in folders with secrets, whatever their mode, nor what others left in /tmp', async () => {
      await chmod(secrets, 0o777)
      await writeFile(join(secrets, 'data-key'), 'secret', { mode: 0o666 })
      await writeFile('/tmp/tollgate-test-left', 'secret', { mode: 0o666 })
      try {
        const look = (path: string) => json(machine, `/read?path=${encodeURIComponent(path)}`)
        expect(await look(secrets)).toMatchObject({ folder: 'EACCES' })
        expect(await look(join(secrets, 'data-key'))).toMatchObject({ file: 'EACCES', write: 'EACCES' })
        expect(await look('/tmp/tollgate-test-left')).toMatchObject({ file: 'ENOENT', write: 'written' })
        expect(await readFile('/tmp/tollgate-test-left', 'utf8')).toBe('secret')
        expect(await look(machines.settings.directory)).toMatchObject({ folder: 'EACCES' })
        expect(await look(filesFor(machine.name).spec)).toMatchObject({ file: 'EACCES' })
        expect(await look('/etc/shadow')).toMatchObject({ file: 'EACCES' })
      } finally {
        await rm('/tmp/tollgate-test-left')
      }
    })

    test('finds nothing in /run but empty folders of root, whatever the host has there', async () => {
      const look = (path: string) => json(machine, `/read?path=${encodeURIComponent(path)}`)
      const { folder } = (await look('/run')) as { folder: string[] }
      // Not every version of mount keeps a folder there.
      expect(folder.filter((each) => each !== 'mount')).toEqual(['root'])
      expect(await look('/run/root')).toMatchObject({ folder: 'EACCES' })
      if (folder.includes('mount')) expect(await look('/run/mount')).toMatchObject({ folder: [] })
      for (const name of ['tollgate-test', 'mount/x', 'root/x']) {
        expect(await look(`/run/${name}`)).toMatchObject({ write: 'EACCES' })
      }
    })

    test('reaches no port and no socket of this host', async () => {
      const open = async (...where: [number, string] | [string]) => {
        const server = createServer((socket) => void socket.end())
        server.listen(...(where as [string]))
        await once(server, 'listening')
        return server
      }
      const port = await open(0, '0.0.0.0')
      const path = join(secrets, 'db.sock')
      const loose = '/tmp/tollgate-test.sock'
      const sockets: Server[] = [await open(path), await open(loose)]
      try {
        for (const each of [path, loose]) await chmod(each, 0o777)
        const { port: number } = port.address() as { port: number }
        const dial = async (query: string) => (await json(machine, `/dial?${query}`))['dialled']
        expect(await dial('host=127.0.0.1&port=8080')).toBe('open')
        expect(await dial(`host=127.0.0.1&port=${number}`)).not.toBe('open')
        for (const each of addressesOfHost()) expect(await dial(`host=${each}&port=${number}`)).not.toBe('open')
        for (const each of [path, loose, filesFor(machine.name).socket]) {
          expect(await dial(`path=${each}`)).not.toBe('open')
        }
      } finally {
        for (const server of [port, ...sockets]) server.close()
      }
    })

    test('answers at its port, which another machine has too', async () => {
      const other = await started()
      expect(await (await askMachine(machine, '/')).text()).toBe('')
      expect((await json(other, '/self'))['uid']).not.toBe(self['uid'])
      const home = filesFor(machine.name).home
      expect(await json(other, `/read?path=${home}`)).toMatchObject({ folder: 'EACCES' })
      await removed(other.name)
    })
  })

  test('a deletion ends the whole tree of processes, orphans in sessions of their own too, and leaves nothing', async () => {
    const { name } = await started(listenerSpec(['orphan']))
    const { uid, groups } = await keptOf({ name })
    // The app itself, a shell, and two programs whose parents have ended; they may come after its first answer.
    while ((await processesOf(uid)).length < 4) await new Promise((resolve) => setImmediate(resolve))
    await removed(name)
    expect(await processesOf(uid)).toEqual([])
    expect(await machines.driver.status(name, never)).toBeNull()
    expect(await readdir(join(machines.settings.directory, 'uids'))).not.toContain(String(uid))
    for (const group of groups) expect(existsSync(group)).toBe(false)
    await machines.driver.delete(name, never)
  })

  test('one whose first thread has ended ends too, in whatever session, though the system calls it a zombie', async () => {
    const machine = await started()
    const { uid } = await keptOf(machine)
    const [pid] = await processesOf(uid)
    await (await askMachine(machine, '/half-end')).text()
    const status = () => readFileSync(`/proc/${pid}/status`, 'utf8')
    while (!/^State:\s+Z/m.test(status())) await new Promise((resolve) => setImmediate(resolve))
    expect(status()).not.toMatch(/^Threads:\s+[01]$/m)
    expect(await processesOf(uid)).toEqual([Number(pid)])
    await removed(machine.name)
    // Its parent may not have asked for its end yet: then one thread, the first, is left of it.
    expect(await readFile(`/proc/${pid}/status`, 'utf8').catch(() => 'gone')).toMatch(/^gone$|^Threads:\s+[01]$/m)
  })

  test('a deletion does not wait for the removal of files, which frees the user and the place before', async () => {
    const machine = await started()
    const { uid } = await keptOf(machine)
    await (await askMachine(machine, '/dig?thousands=3')).text()
    const { folder, lock } = sweeperFiles(machines.settings.directory)
    await mkdir(dirname(lock), { recursive: true, mode: 0o700 })
    const busy = spawn(findPrograms().flock, [lock, 'sh', '-c', 'echo held; read end'], {
      stdio: ['pipe', 'pipe', 'ignore'],
    })
    await once(busy.stdout, 'data')
    await removed(machine.name)
    expect(await machines.driver.status(machine.name, never)).toBeNull()
    expect(await readdir(join(machines.settings.directory, 'uids'))).not.toContain(String(uid))
    expect(await readdir(join(folder, machine.name))).toContain('deep')
    for (const path of [folder, dirname(lock)]) expect((await stat(path)).mode & 0o077).toBe(0)
    busy.stdin.end()
    await once(busy, 'exit')
    // The next list takes it up, as after a restart.
    await machines.swept()
    expect(await readdir(folder)).toEqual([])
  })

  test('memory that belongs to no process counts too, where a control group bounds it', async () => {
    const groups = await openControlGroups(await readFile('/proc/self/mounts', 'utf8'))
    if (groups?.bounds.has('memory') !== true) return
    const small = await openProcessMachines([], { memoryBytes: 160_000_000, firstUid: machines.settings.firstUid + 50 })
    try {
      const name = nextMachineName()
      const machine = await small.start(name, listenerSpec())
      await expect(askMachine(machine, '/fill')).rejects.toThrow()
      await small.until(name, 'ended')
    } finally {
      await small.close()
    }
  })

  test('an app ends with its keeper', async () => {
    const { name } = await started(listenerSpec(['orphan']))
    const { uid } = await keptOf({ name })
    process.kill((JSON.parse(await readFile(filesFor(name).started, 'utf8')) as KnownProcess).pid, 'SIGKILL')
    await machines.until(name, 'ended')
    while ((await processesOf(uid)).length > 0) await new Promise((resolve) => setImmediate(resolve))
    await removed(name)
  })

  test.each([
    ['ends by itself', listenerSpec(['end'])],
    ['can not be started', listenerSpec([], { command: ['/nonexistent/program'] })],
  ])('one that %s has ended, and is not started again', async (_what, spec) => {
    const name = nextMachineName()
    await machines.driver.create(name, spec, never)
    await machines.until(name, 'ended')
    expect(await machines.driver.create(name, spec, never)).toMatchObject({ name, state: 'ended' })
    expect((await machines.driver.list(never)).map((each) => `${each.name} ${each.state}`)).toContain(`${name} ended`)
    await removed(name)
  })

  test('one that needs a model and has none is refused for good', async () => {
    const { command } = listenerSpec()
    const spec = listenerSpec([], { command: [...(command ?? []), '{model}'] })
    await expect(machines.driver.create(nextMachineName(), spec, never)).rejects.toBeInstanceOf(CreateRefused)
  })

  test('asked for many times at once, by several processes, it is started once', async () => {
    const name = nextMachineName()
    const drivers = [machines.driver, machines.beside(), machines.beside()]
    const asked = await Promise.allSettled(
      [...drivers, ...drivers].map((driver) => driver.create(name, listenerSpec(), never)),
    )
    expect(asked.map(({ status }) => status)).toContain('fulfilled')
    await machines.until(name, 'running')
    expect(await startsOf(name)).toBe(1)
    await removed(name)
  })

  describe.each(['written', 'launched'] as const)('a gateway that is killed when all is %s', (step) => {
    async function killed(): Promise<string> {
      const name = nextMachineName()
      const errand: MachineErrand = { settings: machines.settings, name, spec: listenerSpec(), step }
      const worker = spawn(process.execPath, [WORKER, JSON.stringify(errand)], { stdio: 'ignore' })
      const [, signal] = await once(worker, 'exit')
      expect(signal).toBe('SIGKILL')
      return name
    }

    test('leaves a machine that the next one finds, and starts once', async () => {
      const name = await killed()
      await machines.driver.create(name, listenerSpec(), never)
      await machines.until(name, 'running')
      expect(await startsOf(name)).toBe(1)
      expect(await machines.driver.create(name, listenerSpec(), never)).toMatchObject({ state: 'running' })
      expect(await startsOf(name)).toBe(1)
      await removed(name)
    })

    test('leaves one that is listed, and that a deletion removes', async () => {
      const name = await killed()
      expect((await machines.driver.list(never)).map((each) => each.name)).toContain(name)
      const { uid } = await keptOf({ name })
      await removed(name)
      expect(await processesOf(uid)).toEqual([])
    })
  })

  test('as many machines as there are users for are made; a deletion makes room', async () => {
    const few = await openProcessMachines([], { machinesMost: 1, firstUid: machines.settings.firstUid + 50 })
    try {
      const [first, second] = [nextMachineName(), nextMachineName()]
      await few.driver.create(first, listenerSpec(), never)
      await expect(few.driver.create(second, listenerSpec(), never)).rejects.toEqual(new CreateRefused(true))
      for (const name of [first, second]) await few.driver.delete(name, never)
      await few.driver.create(second, listenerSpec(), never)
      await few.until(second, 'running')
    } finally {
      await few.close()
    }
  })

  test('no name leads out of the folder of machines', async () => {
    for (const name of ['../x', 'tollgate-../../x', 'a', '']) {
      const { driver } = machines
      await expect(driver.create(name, listenerSpec(), never)).rejects.toThrow('none of ours')
      await expect(machines.driver.status(name, never)).rejects.toThrow('none of ours')
      await expect(machines.driver.delete(name, never)).rejects.toThrow('none of ours')
    }
  })
})

function addressesOfHost(): string[] {
  const all = Object.values(networkInterfaces()).flat()
  return all.flatMap((each) => (each === undefined || each.internal || each.family !== 'IPv4' ? [] : [each.address]))
}

async function nicenessOf(uid: number): Promise<string> {
  const [pid] = await processesOf(uid)
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8')
  return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[16] ?? ''
}
