import { expect, test } from 'bun:test'
import type { Admitted } from '../../billing/admission/admit.ts'
import type { MayGiveUp } from '../../billing/charges/chargeQueue.ts'
import type { Prepared } from '../../billing/charges/settle.ts'
import { OwnSignal } from '../../lib/callSignal.ts'
import { type CallContext, PaidCall, PreparedCall } from './paidCall.ts'

/** Commits a call; returns whether its charge may be given up at its deadline. */
async function mayGiveUpOf(call: { isClientGone: boolean; isEnded: boolean; isStreamed: boolean; hasKey: boolean }) {
  const heard: MayGiveUp[] = []
  const post = async (_charge: unknown, _share: unknown, _participants: unknown, mayGiveUp: MayGiveUp) => {
    heard.push(mayGiveUp)
    return { kind: 'superseded' }
  }
  const money = { share: () => null, writer: { post } }
  const signal = new OwnSignal()
  let isGone = false
  const key = call.hasKey ? { discard: () => {}, awaitOutcome: () => {} } : undefined
  const caller = { isClientGone: () => isGone, key }
  const context = { dependencies: { money }, caller, signal, isStreamed: call.isStreamed, trace: null }
  const prepared = { admitted: { hold: { spend: () => {} } }, charge: {} } as unknown as Prepared
  const ending = { error: null, finishReason: null }
  await new PreparedCall({ context } as unknown as PaidCall, prepared, ending).commit()
  // Both may happen while the charge waits.
  isGone = call.isClientGone
  if (call.isEnded) signal.abort(new Error('ended'))
  return heard[0]?.()
}

test('a late charge may be given up only where a client still waits for a whole answer (E14)', async () => {
  for (const hasKey of [false, true]) {
    const waits = { isClientGone: false, isEnded: false, isStreamed: false, hasKey }
    expect(await mayGiveUpOf(waits)).toBe(true)
    // Its call may outlive it: then no signal says so.
    expect(await mayGiveUpOf({ ...waits, isClientGone: true })).toBe(false)
    expect(await mayGiveUpOf({ ...waits, isEnded: true })).toBe(false)
    expect(await mayGiveUpOf({ ...waits, isStreamed: true })).toBe(false)
  }
})

test('a call that is given back ends its trace with the reason, not as a bug of ours', () => {
  const ended: unknown[] = []
  const trace = { end: ({ error }: { error: unknown }) => ended.push(error) }
  const context = { dependencies: { clock: { monotonicMs: () => 0 } }, trace } as unknown as CallContext
  const paid = new PaidCall(context, { hold: { release: () => ended.push('released') } } as unknown as Admitted)
  paid.prepared({} as Prepared, { error: null, finishReason: null }).release('upstream_unavailable')
  expect(ended).toEqual(['released', 'upstream_unavailable'])
})
