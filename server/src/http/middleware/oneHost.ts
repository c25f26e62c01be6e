import { refusal } from '../../lib/errors.ts'
import { inEnvelope } from '../envelopes.ts'
import type { Middleware } from '../pipeline.ts'

const TWO_HOSTS = refusal('invalid_request', 'The request has two Host headers; send one.')

/** Refuses two hosts. A header that came twice arrives joined, and a proxy in front may have meant the other one. */
export const oneHost: Middleware = ({ request, envelope }) =>
  request.headers.get('Host')?.includes(',') === true ? inEnvelope(TWO_HOSTS, envelope) : null
