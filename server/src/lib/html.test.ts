import { expect, test } from 'bun:test'
import { html, htmlPage } from './html.ts'

test('an origin that means something in a header is no target of forms', () => {
  const formTargets = [
    'https://shop.example',
    'https://a;sandbox',
    'https://a,b',
    "https://'self'",
    'http://[::1]:3000',
  ]
  const policy = htmlPage('Pay', html`<p>Pay</p>`, { formTargets }).headers.get('Content-Security-Policy')
  expect(policy).toEndWith("; form-action 'self' https://shop.example http://[::1]:3000")
})
