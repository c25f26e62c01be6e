/**
 * `tollgate serve --processes N`: one parent that has the data directory and the database, and N gateways that share the
 * port. Each is an ordinary `tollgate serve` on that database with a data directory and an admin port of its own.
 */

import type { ChildProcess } from 'node:child_process'
import { join } from 'node:path'
import type { Discovered } from '../catalog/discovered.ts'
import { ENGINES_REFUSED } from '../catalog/provider.ts'
import { type Config, MEMBER_VARIABLE, type Member } from '../config/config.ts'
import { startOwnProcess } from '../infra/ownProcess.ts'
import { doubledMs } from '../lib/backoff.ts'
import type { Log } from '../lib/log.ts'
import { type Clock, SECOND_MS, sleep } from '../lib/time.ts'
import { CommandFailure } from './command.ts'
import { openPort } from './openPort.ts'
import type { ServeContext } from './startUp.ts'

/** The wait before a dead process is started again, doubled for each start in a row that came to nothing, and the longest. */
const RESTART_FIRST_MS = SECOND_MS
const RESTART_MOST_MS = 32 * SECOND_MS
const RESTARTS_MAX = 6

/** Runs N gateways until they are asked to stop, and lets them end what they have open. */
export async function serveMany(started: ServeContext): Promise<void> {
  const { config, clock, stdout, stdoutIsTerminal, opened, discovered, log, signals, stopping } = started
  refuseEngines(discovered)
  const members: Gateway[] = []
  try {
    const port = await findPort(config)
    for (let index = 0; index < config.processes; index += 1) {
      const start = (isFirst: boolean) =>
        startMember(
          started,
          { index, port, url: opened.url },
          { isFirst, stdoutIsTerminal, sharedDirectory: config.dataDirectory, discovered, isEmbedded: opened.embedded },
        )
      members.push(new Gateway(start, index, clock, log, (reason) => stopping.fail(reason)))
    }
    signals.onReload(() => {
      for (const member of members) member.signal('SIGHUP')
    })
    const stopped = stopping.first.then((reason) => reason ?? 'stopped')
    const [first, ...others] = members
    // The first comes last: it makes the first key, which is shown once nothing is in the way any more.
    const ready = Promise.all(others.map((member) => member.run(false))).then(() => first?.run(true))
    const printed = await Promise.race([ready, stopped.then(() => undefined)])
    if (printed !== undefined) stdout(printed)
    await stopping.first
    void stopping.second.then(() => {
      for (const member of members) member.signal('SIGTERM')
    })
    await Promise.all(members.map((member) => member.stop()))
  } finally {
    for (const member of members) member.signal('SIGKILL')
  }
}

/** An engine has the whole model in memory, and each process would start its own. Those of the file are refused with it. */
function refuseEngines(discovered: readonly Discovered[]): void {
  if (discovered.some(({ kind }) => kind === 'gguf')) throw new CommandFailure(ENGINES_REFUSED)
}

/** The port, found free: a port that processes share would also be shared with a program that is not ours. */
async function findPort({ host, port }: Config): Promise<number> {
  const answer = () => new Response(null, { status: 503 })
  const found = openPort('--port', { host, port, maxBodyBytes: 0, handle: answer, onError: answer })
  await found.kill()
  return found.port
}

function startMember(
  { config, json }: ServeContext,
  place: { readonly index: number; readonly port: number; readonly url: string },
  member: Member,
): ChildProcess {
  const words = ['serve', '--host', config.host, '--port', String(place.port)]
  words.push('--admin-port', String(config.adminPort === 0 ? 0 : config.adminPort + place.index))
  words.push('--data-dir', join(config.dataDirectory, 'processes', String(place.index)))
  if (config.source !== null) words.push('--config', config.source.fileName)
  if (json) words.push('--json')
  return startOwnProcess(words, {
    ...config.environment(),
    DATABASE_URL: place.url,
    [MEMBER_VARIABLE]: JSON.stringify(member),
  })
}

/** One of the processes: started again when it dies. */
class Gateway {
  private readonly start: (isFirst: boolean) => ChildProcess
  private readonly index: number
  private readonly clock: Clock
  private readonly log: Log
  private readonly fail: (reason: string) => void
  private child: ChildProcess | null = null
  private ended: Promise<unknown> = Promise.resolve()
  private isStopping = false
  private startsInVain = 0

  constructor(
    start: (isFirst: boolean) => ChildProcess,
    index: number,
    clock: Clock,
    log: Log,
    fail: (reason: string) => void,
  ) {
    this.start = start
    this.index = index
    this.clock = clock
    this.log = log
    this.fail = fail
  }

  /** Starts it; resolves with what it prints once it serves. */
  run(isFirst: boolean): Promise<string> {
    if (this.isStopping) return new Promise(() => {})
    const child = this.start(isFirst)
    this.child = child
    this.ended = new Promise((resolve) => child.once('exit', resolve))
    child.once('error', (error) => this.fail(`a gateway process can not be started: ${error.message}`))
    // A parent's writes never matter, a broken pipe neither.
    child.stdin?.on('error', () => {})
    let isServing = false
    child.once('exit', (code, signal) => {
      if (this.isStopping) return
      this.startsInVain = isServing ? 0 : this.startsInVain + 1
      if (this.startsInVain >= RESTARTS_MAX || (isFirst && !isServing)) {
        this.fail('a gateway process ends before it serves; the log says why')
        return
      }
      this.log.error({ process: this.index, code, signal }, 'a gateway process has ended; it is started again')
      void sleep(this.clock, doubledMs(RESTART_FIRST_MS, RESTART_MOST_MS, this.startsInVain)).then(() =>
        this.run(false),
      )
    })
    return new Promise((resolve) => {
      child.stdout?.on('data', (data) => {
        isServing = true
        resolve(String(data))
      })
    })
  }

  signal(name: NodeJS.Signals): void {
    if (name === 'SIGKILL') this.isStopping = true
    if (this.child?.exitCode === null && this.child.signalCode === null) this.child.kill(name)
  }

  /** Lets it end what it has open. */
  async stop(): Promise<void> {
    this.isStopping = true
    this.signal('SIGTERM')
    await this.ended
  }
}
