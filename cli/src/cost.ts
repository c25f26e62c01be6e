import { HEADER_BRAND } from '../../server/src/lib/brand.ts'
import { printUsd } from '../../server/src/lib/usd.ts'

/** Returns the cost that the server reports with an answer, such as ` for $0.02`; empty when it reports none. */
export function costOf(headers: Headers): string {
  const cost = headers.get(`${HEADER_BRAND}-Cost-Microcents`) ?? ''
  return /^[0-9]{1,18}$/.test(cost) ? ` for $${printUsd(BigInt(cost))}` : ''
}
