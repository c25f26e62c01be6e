/** The pages of payments, as a browser asks for them. */

import type { Gateway } from './gateway.ts'

/** Opens a page by the address that a person was sent to. */
export function openPage(gateway: Pick<Gateway, 'app'>, url: string): Promise<Response> {
  return ask(gateway, new Request(url))
}

/** Sends the form of a page. */
export function payAt(
  gateway: Pick<Gateway, 'app'>,
  url: string,
  fields: Readonly<Record<string, string>>,
): Promise<Response> {
  const body = new FormData()
  for (const [name, value] of Object.entries(fields)) body.set(name, value)
  return ask(gateway, new Request(url, { method: 'POST', body }))
}

async function ask({ app }: Pick<Gateway, 'app'>, request: Request): Promise<Response> {
  return app.handle(request, { address: '127.0.0.1', setIdleTimeout: () => {} })
}
