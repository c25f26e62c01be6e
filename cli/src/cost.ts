import { HEADER_BRAND } from '../../server/src/lib/brand.ts'
import { printUsd } from '../../server/src/lib/usd.ts'

/** Returns the cost that the server reports with an answer, in dollars, such as `0.02`; null when it reports none. */
export function costUsd(headers: Headers): string | null {
  const cost = headers.get(`${HEADER_BRAND}-Cost-Microcents`) ?? ''
  return /^[0-9]{1,18}$/.test(cost) ? printUsd(BigInt(cost)) : null
}
