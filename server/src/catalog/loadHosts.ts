import { z } from 'zod'
import type { Path, Report } from './document.ts'

const ENTRIES_MAX = 100

/** The setting `admin_hosts` as it stands in the file. */
export const HostsShape = z.array(z.string()).max(ENTRIES_MAX).optional()

/** The setting `cors_origins` as it stands in the file. */
export const OriginsShape = z.array(z.string()).max(ENTRIES_MAX).optional()

const HOST = /^(?:[a-z0-9_-]+(?:\.[a-z0-9_-]+)*|\[[0-9a-f:.]+\])$/i

/** Reads hosts without ports, and returns them in lower case. */
export function loadHosts(read: readonly string[], path: Path, report: Report): readonly string[] {
  for (const [index, host] of read.entries()) {
    if (!HOST.test(host))
      report([...path, index], 'must be a host without a port, such as metrics.internal or [fd00::1]')
  }
  return read.map((host) => host.toLowerCase())
}

/** Reads origins. Each must be written as browsers write it, since it is compared with the header `Origin`. */
export function loadOrigins(read: readonly string[], path: Path, report: Report): readonly string[] {
  for (const [index, text] of read.entries()) {
    const url = URL.canParse(text) ? new URL(text) : null
    const isWeb = url?.protocol === 'https:' || url?.protocol === 'http:'
    if (isWeb && url?.origin === text) continue
    const hint = isWeb ? `: write ${url?.origin}` : ', such as https://app.example.com'
    report([...path, index], `must be the origin of a site, in lower case and without a path${hint}`)
  }
  return read
}
