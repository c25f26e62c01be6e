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
import { CommandFailure } from './command.ts'
import { GatewayProcess } from './gatewayProcess.ts'
import { openPort } from './openPort.ts'
import type { ServeContext } from './startUp.ts'

/** Runs N gateways until they are asked to stop, and lets them end what they have open. */
export async function serveMany(started: ServeContext): Promise<void> {
  const { config, clock, stdout, stdoutIsTerminal, opened, discovered, log, signals, stopping } = started
  refuseEngines(discovered)
  const members: GatewayProcess[] = []
  try {
    const port = await findPort(config)
    for (let index = 0; index < config.processes; index += 1) {
      const start = (isFirst: boolean) =>
        startMember(
          started,
          { index, port, url: opened.url },
          {
            ...{ isFirst, stdoutIsTerminal, discovered },
            // Also where it starts again: nobody else opens that port.
            hasAppPort: index === 0,
            sharedDirectory: config.dataDirectory,
            isEmbedded: opened.embedded,
          },
        )
      members.push(new GatewayProcess(start, index, clock, log, (reason) => stopping.fail(reason)))
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
