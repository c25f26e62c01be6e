/**
 * The pages of the local payment provider: test mode, no real money. Anybody who has the address of a checkout may
 * open it.
 */

import { formFields } from '../../http/formFields.ts'
import type { Handle } from '../../http/pipeline.ts'
import type { PublicPrincipal } from '../../http/principal.ts'
import { type Html, html, htmlPage } from '../../lib/html.ts'
import type { Log } from '../../lib/log.ts'
import { utcDay } from '../../lib/time.ts'
import {
  isLocalCard,
  LOCAL_CARDS,
  type LocalCard,
  type LocalCheckout,
  type LocalChoice,
  type LocalProblem,
} from './checkout.ts'
import type { LocalPortalView, LocalProvider } from './provider.ts'
import { localPrice, localPriceInWords } from './subscription.ts'

export interface LocalPageDependencies {
  readonly local: LocalProvider
  /** Tells that a checkout or a subscription has changed, as a callback of a real payment provider does. */
  readonly onChanged: (id: string) => Promise<unknown>
  readonly log: Log
}

const TEST_MODE = html`<p class="test"><strong>Test mode, no real money.</strong> This page stands in for a payment provider’s.</p>`

const PROBLEMS: Readonly<Record<LocalProblem, string>> = {
  declined: 'The card was declined. Choose another one.',
  refused: 'The authentication was refused, and nothing was paid. Choose a card again.',
  ended: 'This checkout has ended. Ask for a new one.',
}

/** GET /payments/local/checkouts/{id}. */
export function showLocalCheckout({ local }: LocalPageDependencies): Handle<PublicPrincipal> {
  return async ({ parameters: [id = ''] }) => {
    const checkout = await local.show(id)
    return checkout === null ? noSuchCheckout() : checkoutPage(checkout, null)
  }
}

/** POST /payments/local/checkouts/{id}, from the form of the page. */
export function postLocalCheckout({ local, onChanged, log }: LocalPageDependencies): Handle<PublicPrincipal> {
  return async ({ parameters: [id = ''], body }) => {
    const choice = choiceOf(body)
    if (choice === null) return htmlPage('Choose again', html`<p>Go back, and choose a card.</p>`, { status: 422 })
    const chosen = await local.choose(id, choice)
    if (chosen === null) return noSuchCheckout()
    const { checkout, problem } = chosen
    if (checkout.state !== 'paid') return checkoutPage(checkout, problem)
    // Where this fails the payment is found by asking, like one whose callback was lost.
    await onChanged(id).catch((error: unknown) => log.warn({ err: error }, 'a local payment is applied later'))
    return new Response(null, { status: 303, headers: { Location: checkout.successUrl, 'Cache-Control': 'no-store' } })
  }
}

function choiceOf(body: unknown): LocalChoice | null {
  const fields = formFields(body)
  const answer = fields.get('authentication')
  if (answer !== undefined) return { kind: 'authenticate', isConfirmed: answer === 'confirm' }
  const card = fields.get('card') ?? ''
  return isLocalCard(card) ? { kind: 'pay', card, savesCard: fields.get('save') === 'yes' } : null
}

function noSuchCheckout(): Response {
  const advice = html`<p>There is no checkout at this address. Ask for a new one.</p>`
  return htmlPage('No such checkout', advice, { status: 404 })
}

function checkoutPage(checkout: LocalCheckout, problem: LocalProblem | null): Response {
  const { state, description, successUrl, cancelUrl } = checkout
  const shown = problem === null ? html`` : html`<p class="problem">${PROBLEMS[problem]}</p>`
  const formTargets = [new URL(successUrl).origin, new URL(cancelUrl).origin]
  const body = html`${TEST_MODE}<p>${description}</p>${shown}${formOf(checkout)}`
  const status = problem === 'declined' || problem === 'refused' ? 402 : problem === 'ended' ? 410 : 200
  return htmlPage(state === 'authenticating' ? 'Your bank asks' : 'Pay', body, { status, formTargets })
}

function formOf({ state, price, offersSaving, savesCard, successUrl, cancelUrl }: LocalCheckout): Html {
  switch (state) {
    case 'paid':
      return html`<p>This is paid. <a href="${successUrl}">Go on</a></p>`
    case 'expired':
      return html`<p>This checkout has ended. <a href="${cancelUrl}">Go back</a></p>`
    case 'authenticating':
      return html`<form method="post" enctype="multipart/form-data"><p>Do you confirm this payment?</p>
        <button name="authentication" value="confirm">Confirm</button>
        <button name="authentication" value="refuse">Refuse</button></form>`
    case 'open':
      return html`<form method="post" enctype="multipart/form-data"><fieldset><legend>Test card</legend>${cards()}</fieldset>
        ${price === null && offersSaving === true ? saveBox(savesCard) : html``}
        <button>Pay</button><a href="${cancelUrl}">Cancel</a></form>`
  }
}

/** Not at a subscription's checkout: auto-pay pays by the card of a top-up. */
function saveBox(savesCard: boolean): Html {
  return html`<label><input type="checkbox" name="save" value="yes"${isChecked(savesCard)}> Keep this card for later payments</label>`
}

function isChecked(checked: boolean): Html {
  return { html: checked ? ' checked' : '' }
}

function cards(): readonly Html[] {
  const names = Object.keys(LOCAL_CARDS) as LocalCard[]
  return names.map((name, index) => {
    return html`<label><input type="radio" name="card" value="${name}"${isChecked(index === 0)}> ${LOCAL_CARDS[name]}</label>`
  })
}

/** GET /payments/local/receipts/{id}. */
export function showLocalReceipt({ local }: LocalPageDependencies): Handle<PublicPrincipal> {
  return async ({ parameters: [id = ''] }) => {
    const paid = await local.showReceipt(id)
    if (paid === null) {
      return htmlPage('No such receipt', html`<p>There is no receipt at this address.</p>`, { status: 404 })
    }
    const amount = `$${(paid.amountCents / 100).toFixed(2)}`
    const body = html`${TEST_MODE}<p>${paid.description}</p><p>Paid on ${utcDay(paid.paidAtMs)}: ${amount}</p><p>${id}</p>`
    return htmlPage('Receipt', body)
  }
}

/** GET /payments/local/portals/{id}. */
export function showLocalPortal({ local }: LocalPageDependencies): Handle<PublicPrincipal> {
  return async ({ parameters: [id = ''] }) => {
    const portal = await local.showPortal(id)
    return portal === null ? noSuchPortal() : portalPage(portal)
  }
}

/** POST /payments/local/portals/{id}, from the form of the page. */
export function postLocalPortal({ local, onChanged, log }: LocalPageDependencies): Handle<PublicPrincipal> {
  return async ({ parameters: [id = ''], body }) => {
    const portal = await local.showPortal(id)
    if (portal === null) return noSuchPortal()
    const fields = formFields(body)
    const chosen = portal.subscriptions.find((each) => each.id === fields.get('subscription'))
    if (chosen !== undefined) {
      await local.setCancelled(chosen.id, fields.get('action') === 'cancel')
      await onChanged(chosen.id).catch((error: unknown) => log.warn({ err: error }, 'a local change is applied later'))
    }
    return portalPage((await local.showPortal(id)) ?? portal)
  }
}

function noSuchPortal(): Response {
  return htmlPage('No such page', html`<p>There is no portal at this address. Ask for a new one.</p>`, { status: 404 })
}

function portalPage({ subscriptions, returnUrl }: LocalPortalView): Response {
  const live = subscriptions.filter(({ status }) => status === 'active')
  const none = html`<p>There is no subscription.</p>`
  const back = html`<p><a href="${returnUrl}">Go back</a></p>`
  const list = live.length === 0 ? none : html`${live.map(subscriptionForm)}`
  return htmlPage('Your subscription', html`${TEST_MODE}${list}${back}`)
}

function subscriptionForm(subscription: LocalPortalView['subscriptions'][number]): Html {
  const { id, price, periodEndMs, cancelAtPeriodEnd } = subscription
  const day = utcDay(periodEndMs)
  const known = localPrice(price)
  const [says, action, label] = cancelAtPeriodEnd
    ? [`It ends on ${day}.`, 'resume', 'Keep the subscription']
    : [`It is renewed on ${day}.`, 'cancel', 'Cancel the subscription']
  return html`<form method="post" enctype="multipart/form-data"><p>${known === null ? price : localPriceInWords(known)}. ${says}</p>
    <input type="hidden" name="subscription" value="${id}"><button name="action" value="${action}">${label}</button></form>`
}
