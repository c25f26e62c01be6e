/**
 * A call over https by a process of its own, since trusted roots are read when a process starts: `bun trustingCall.ts URL`
 * with NODE_EXTRA_CA_CERTS prints the status of the answer, or the code of the failure.
 */
import { systemClock } from '../src/infra/clock.ts'
import { createHttp } from '../src/infra/httpClient/client.ts'
import { HttpFailure } from '../src/infra/httpClient.ts'

const http = createHttp(systemClock)
const signal = new AbortController().signal
const request = { headers: {}, body: '{}', signal, connectMs: 5_000, maxBytes: 100 }
try {
  const answer = await http.post(process.argv[2] ?? '', request)
  process.stdout.write(String(answer.status))
} catch (error) {
  process.stdout.write(error instanceof HttpFailure ? error.code : String(error))
}
process.exit()
