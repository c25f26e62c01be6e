/** A browser without scripts: it keeps cookies, says where its forms come from, and sends the hidden fields of a page. */

import type { Gateway } from './gateway.ts'

/** Of the settings of gateways that a {@link openVisitor} talks to: `public_url`. */
export const BROWSER_ORIGIN = 'http://127.0.0.1:8080'

export interface BrowsedPage {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  /** Of a redirect. */
  readonly location: string | null
}

export interface Visitor {
  /** By name. A test may change them. */
  readonly cookies: Map<string, string>
  readonly address: string
  /** Opens a page of `/account`. */
  open(path: string): Promise<BrowsedPage>
  /**
   * Opens a page and sends the first form on it, or the one with this `action`; `headers` stand in for the browser's own. `onOpen` is
   * waited for before the form is sent.
   */
  fill(
    path: string,
    fields: Readonly<Record<string, string>>,
    more?: { action?: string; headers?: Readonly<Record<string, string>>; onOpen?: () => Promise<void> },
  ): Promise<BrowsedPage>
  /** Sends a request of a script on a page of the server, with the session's CSRF token. */
  call(method: string, path: string, body?: unknown, headers?: Readonly<Record<string, string>>): Promise<Response>
}

export function openVisitor(gateway: Pick<Gateway, 'send'>, address = '127.0.0.1'): Visitor {
  const cookies = new Map<string, string>()
  const cookieHeader = () => [...cookies].map(([name, value]) => `${name}=${value}`).join('; ')
  const send = async (path: string, init: RequestInit) => {
    const headers = new Headers(init.headers)
    headers.set('User-Agent', 'test browser')
    if (cookies.size > 0) headers.set('Cookie', cookieHeader())
    const response = await gateway.send(path, { ...init, headers, address })
    for (const line of response.headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? []
      if (value === '') cookies.delete(name)
      else cookies.set(name, value)
    }
    return response
  }
  const pageOf = async (response: Response): Promise<BrowsedPage> => ({
    status: response.status,
    headers: response.headers,
    text: await response.text(),
    location: response.headers.get('Location'),
  })
  const open = async (path: string) => pageOf(await send(path, {}))
  return {
    cookies,
    address,
    open,
    async fill(path, fields, { action, headers = {}, onOpen } = {}) {
      const { text } = await open(path)
      await onOpen?.()
      const body = new FormData()
      const csrf = /name="csrf" value="([^"]*)"/.exec(text)?.[1]
      if (csrf !== undefined) body.set('csrf', csrf)
      for (const [name, value] of Object.entries(fields)) body.set(name, value)
      return pageOf(
        await send(action ?? path, { method: 'POST', body, headers: { Origin: BROWSER_ORIGIN, ...headers } }),
      )
    },
    async call(method, path, body, headers = {}) {
      const session = await (await send('/manage/v1/session', {})).json()
      return send(path, {
        method,
        headers: {
          Origin: BROWSER_ORIGIN,
          'X-CSRF-Token': String(session.csrf_token),
          'Content-Type': 'application/json',
          ...headers,
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      })
    },
  }
}
