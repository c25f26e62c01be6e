/** Pages for people: plain HTML, which nothing else may frame or add to. */

import { hash } from 'node:crypto'
import { PAGE_STYLE } from './pageStyle.ts'
import { isPlainOrigin } from './plainOrigin.ts'

/** HTML that is safe to be part of a page. */
export interface Html {
  readonly html: string
}

/** Writes HTML; every value is escaped unless it is {@link Html} itself. */
export function html(parts: TemplateStringsArray, ...values: readonly (string | Html | readonly Html[])[]): Html {
  const text = parts.map((part, index) => part + textOf(values[index] ?? '')).join('')
  return { html: text }
}

function textOf(value: string | Html | readonly Html[]): string {
  if (typeof value === 'string') return escaped(value)
  return 'html' in value ? value.html : value.map((each) => each.html).join('')
}

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

function escaped(text: string): string {
  return text.replaceAll(/[&<>"']/g, (character) => ENTITIES[character] ?? '')
}

/**
 * `formTargets`: origins beside this server's that a form of the page may end at; one that can't be in a header is left out.
 * `script`: the only one that the page runs, without values of anybody in it. `header`: stands above the title.
 */
export function htmlPage(
  title: string,
  body: Html,
  {
    status = 200,
    formTargets = [],
    script,
    header,
  }: { status?: number; formTargets?: readonly string[]; script?: string; header?: Html } = {},
): Response {
  const head = html`<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>${title}</title>`
  const style: Html = { html: `<style>${PAGE_STYLE}</style>` }
  const element: Html = { html: script === undefined ? '' : `<script>${script}</script>` }
  const above = header === undefined ? html`` : html`<header>${header}</header>`
  const scripts = script === undefined ? '' : ` script-src 'sha256-${hash('sha256', script, 'base64')}';`
  const page = html`<!doctype html><html lang="en"><head>${head}${style}</head><body>${above}<main><h1>${title}</h1>${body}</main>${element}</body></html>`
  return new Response(page.html, {
    status,
    headers: {
      'Content-Type': 'text/html; charset=utf-8',
      'Content-Security-Policy': `default-src 'none';${scripts} style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'; form-action ${["'self'", ...formTargets.filter(isPlainOrigin)].join(' ')}`,
      'Cache-Control': 'no-store',
      'Referrer-Policy': 'no-referrer',
      'X-Content-Type-Options': 'nosniff',
    },
  })
}
