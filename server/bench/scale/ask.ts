import { ClientConnection } from '../connection.ts'
import { cpuSeconds } from '../processes.ts'
import { encodeRequests } from '../requests.ts'
import { Samples } from '../statistics.ts'
import { chatBody, type Target } from '../target.ts'
import { FILLED_MODELS, keyOfOrganization } from './books.ts'

/** The calls of one kind, added up over several turns. */
export class CallFigures {
  /** Milliseconds of the calls that were answered. */
  readonly samples = new Samples()
  answered = 0
  failed = 0
  firstError: string | null = null
  /** Seconds of processor time, of all of the gateway's processes and of the database's. */
  gatewaySeconds = 0
  databaseSeconds = 0

  get calls(): number {
    return this.answered + this.failed
  }
}

/** Calls the target once for each of these organizations, over so many connections, each call when its connection is free. Adds to `figures`. */
export async function callInTurn(
  target: Target,
  organizations: readonly number[],
  figures: CallFigures,
  connections = 1,
): Promise<void> {
  const gatewayBefore = cpuSeconds(target.gatewayPids())
  const databaseBefore = cpuSeconds(target.databasePids())
  let next = 0
  const work = async () => {
    const connection = new ClientConnection(target.port)
    while (next < organizations.length) await callOnce(connection, target, organizations[next++] ?? 1, figures)
    connection.close()
  }
  await Promise.all(Array.from({ length: connections }, work))
  figures.gatewaySeconds += cpuSeconds(target.gatewayPids()) - gatewayBefore
  figures.databaseSeconds += cpuSeconds(target.databasePids()) - databaseBefore
}

/** Makes one call. Resolves to its milliseconds, answered or not. Rejects where nothing listens: the run is being ended. */
export function callOnce(
  connection: ClientConnection,
  target: Target,
  organization: number,
  figures: CallFigures,
): Promise<number> {
  const body = chatBody(target, FILLED_MODELS[0], false)
  const authorizations = [`Bearer ${keyOfOrganization(organization)}`]
  const [request] = encodeRequests({ port: target.port, path: target.path, headers: {}, authorizations, body })
  if (request === undefined) throw new Error('there is nothing to send')
  return new Promise((resolve, reject) => {
    const sentAtMs = performance.now()
    connection.call(request, {
      onEnd: ({ error }) => {
        const tookMs = performance.now() - sentAtMs
        if (error?.startsWith('connect: ')) return reject(new Error(`${target.name}: ${error}`))
        if (error === null) {
          figures.answered += 1
          figures.samples.add(tookMs)
        } else {
          figures.failed += 1
          figures.firstError ??= error
        }
        resolve(tookMs)
      },
    })
  })
}
