/** The part of a gateway process that delivers webhooks, for `webhooks.ts`. Ends with its input. */

import { systemClock } from '../src/infra/clock.ts'
import { systemResolve } from '../src/infra/dns.ts'
import { createHttp } from '../src/infra/httpClient/client.ts'
import { createLog } from '../src/infra/log.ts'
import { openClient } from '../src/infra/postgres/client.ts'
import { systemRandom } from '../src/infra/random.ts'
import { parseNetworks } from '../src/lib/networks.ts'
import { createDeliverer } from '../src/webhooks/deliveries/deliver.ts'
import { oneDataKey } from '../test/oneDataKey.ts'

const [url = '', dataKey = ''] = process.argv.slice(2)
const database = openClient(url, { maxConnections: 4, clock: systemClock })
createDeliverer({
  database,
  clock: systemClock,
  log: createLog('warn', process.stderr),
  random: systemRandom(),
  dataKeys: oneDataKey(new Uint8Array(Buffer.from(dataKey, 'hex'))),
  http: createHttp(systemClock, { idleMs: 0 }),
  resolve: systemResolve,
  allowed: parseNetworks(['127.0.0.0/8']),
  retryMs: [30_000, 300_000, 1_800_000, 7_200_000],
  onAttempt: () => {},
  onSettled: () => {},
}).start()
process.stdin.on('end', () => process.exit()).resume()
