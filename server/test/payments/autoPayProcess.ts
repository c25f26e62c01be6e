/**
 * A process with several runners of auto-pay: `bun autoPayProcess.ts DATABASE STRIPE RUNNERS`. It says `ready`. For each line that it
 * reads, an instant in milliseconds since the epoch, all of its runners look once at what is due then, together; it says `done`.
 */

import { createInterface } from 'node:readline'
import { systemClock } from '../../src/infra/clock.ts'
import { openClient } from '../../src/infra/postgres/client.ts'
import { systemRandom } from '../../src/infra/random.ts'
import { Secret } from '../../src/lib/secret.ts'
import { createAutoPayRunner } from '../../src/payments/autoPay/runner.ts'
import { createStripe } from '../../src/payments/stripe/client.ts'
import { createStripeProvider } from '../../src/payments/stripe/provider.ts'
import { SILENCE } from '../silence.ts'
import { STRIPE_KEY } from '../stripeServer.ts'

const [url = '', apiUrl = '', runners = ''] = process.argv.slice(2)
let nowMs = 0
const clock = { ...systemClock, now: () => nowMs }
const database = openClient(url, { maxConnections: 4, clock: systemClock, applicationName: 'auto-pay' })
const stripe = createStripe({ secretKey: new Secret(STRIPE_KEY), apiUrl })
const dependencies = {
  database,
  clock,
  random: systemRandom(),
  log: SILENCE,
  provider: createStripeProvider({ stripe, log: SILENCE, automaticTax: false }),
  openLink: async () => null,
  onNoticed: () => {},
}
await database.query('select 1')
process.stdout.write('ready\n')
for await (const line of createInterface({ input: process.stdin })) {
  nowMs = Number(line)
  await Promise.all(Array.from({ length: Number(runners) }, () => createAutoPayRunner(dependencies).run()))
  process.stdout.write('done\n')
}
await database.close()
