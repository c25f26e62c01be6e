/**
 * The rules that each charge must keep: one a call at most, of its hold, for its usage; and none where there must be
 * one.
 */

import type { Call } from './call.ts'
import type { Snapshot } from './engine.ts'
import type { ChargeRow } from './model/books.ts'
import { keysOfRentals } from './rentalChecks.ts'
import { costOf, promptAtMost, promptCount } from './script.ts'
import { usageOfAnswer } from './usage.ts'

/** Everything that is wrong, in words. */
export function findChargeProblems(
  snapshot: Snapshot,
  calls: ReadonlyMap<string, Call>,
  ampleOrganizations: ReadonlySet<string>,
  isLast: boolean,
): string[] {
  const problems: string[] = []
  const charged = new Map<string, ChargeRow>()
  const rented = keysOfRentals(snapshot)
  for (const charge of snapshot.charges) {
    if (rented.has(charge.keyId)) continue
    if (charged.has(charge.keyId)) problems.push(`call ${charge.keyId} is charged twice`)
    charged.set(charge.keyId, charge)
  }
  const dead = new Set(snapshot.deadKeyIds)
  for (const call of calls.values()) {
    const charge = charged.get(call.keyId) ?? null
    // It may be posted late (E14), and is lost with its process.
    const isTaken = charge === null && call.heldMicrocents !== null
    const mayBeAbsent = isTaken && (!isLast || !call.machine.isAlive)
    const isAmple = ampleOrganizations.has(call.organizationId) && !call.wasSlow
    const found = [
      ...admissionProblems(call),
      ...holdProblems(call, charge),
      ...answerProblems(call),
      ...toldProblems(call, charge, dead.has(call.keyId), isAmple),
      ...hangUpProblems(call, charge, dead.has(call.keyId) || mayBeAbsent, isAmple),
    ]
    problems.push(...found.map((problem) => `call ${call.keyId} ${problem}`))
  }
  return problems
}

function admissionProblems({ wasAdmitted, mustNotStart }: Call): string[] {
  return wasAdmitted && mustNotStart !== null ? [`was let in though ${mustNotStart}`] : []
}

/** A charge is no more than what was held for it, and than what any hold for it can be (C10). */
function holdProblems(call: Call, charge: ChargeRow | null): string[] {
  if (charge === null) return []
  const { heldMicrocents } = call
  if (heldMicrocents === null) return ['is charged, and no hold was spent for it']
  const most = mostOf(call)
  return [
    ...(charge.cost > heldMicrocents ? [`is charged ${charge.cost}, and ${heldMicrocents} was held for it`] : []),
    ...(charge.cost > most ? [`is charged ${charge.cost}, and can come to ${most}`] : []),
  ]
}

/** No client has more of an answer than was held for it, however its hold was shrunk. */
function answerProblems({
  resolved: served,
  admittedAtMs,
  script,
  maxTokens,
  tokensRead,
  heldMicrocents,
}: Call): string[] {
  if (heldMicrocents === null) return []
  const tokens = Math.min(tokensRead, maxTokens ?? Number.POSITIVE_INFINITY)
  const least = costOf(served, admittedAtMs, promptAtMost(script.promptCharacters), 0, tokens)
  return heldMicrocents < least ? [`has an answer worth ${least}, and ${heldMicrocents} was held for it`] : []
}

/** The most that a call can come to: without a limit of its own all that the context has room for, at the dearer rate. */
function mostOf({ resolved: served, admittedAtMs, maxTokens, worst }: Call): bigint {
  if (maxTokens !== null) return worst.wholeMicrocents
  const { contextTokens } = served.model
  const prompt = costOf(served, admittedAtMs, contextTokens, 0, 0)
  const output = costOf(served, admittedAtMs, 0, 0, contextTokens)
  return prompt > output ? prompt : output
}

/** An answer with its end has its charge, which is what it was told, and what its usage costs or was held for it. */
function toldProblems(call: Call, charge: ChargeRow | null, isDead: boolean, isAmple: boolean): string[] {
  if (call.told === null) return []
  const { resolved: served, admittedAtMs, heldMicrocents } = call
  const { usage, costMicrocents } = call.told
  const expected = usageOfAnswer(call)
  const { promptTokens, cachedPromptTokens, completionTokens } = expected
  const price = costOf(served, admittedAtMs, promptTokens, cachedPromptTokens, completionTokens)
  const cost = heldMicrocents !== null && heldMicrocents < price ? heldMicrocents : price
  const isUsage =
    usage.promptTokens === promptTokens &&
    usage.cachedPromptTokens === cachedPromptTokens &&
    usage.completionTokens === completionTokens
  return [
    ...(charge === null && !isDead ? ['has its whole answer and no charge'] : []),
    ...(isUsage ? [] : [`should be for ${JSON.stringify(expected)}, and was told ${JSON.stringify(usage)}`]),
    ...(cost === costMicrocents ? [] : [`costs ${cost} and was told ${costMicrocents}`]),
    ...(isAmple && price !== costMicrocents ? [`costs ${price}, could be paid, and was told ${costMicrocents}`] : []),
    ...(charge !== null && charge.cost !== costMicrocents
      ? [`was charged ${charge.cost} and told ${costMicrocents}`]
      : []),
  ]
}

/** A client that leaves while a target has all of the prompt and has not failed pays for the prompt at least (C3). */
function hangUpProblems(call: Call, charge: ChargeRow | null, isElsewhere: boolean, isAmple: boolean): string[] {
  const {
    answer,
    atWorkWhenLeft,
    resolved: served,
    script,
    maxTokens,
    admittedAtMs,
    hasReport,
    tokensRead,
    tokensTaken,
  } = call
  if (answer === null || isElsewhere || !answer.startsWith('hung up')) return []
  // It failed before its client left, and is as free as any that fails.
  if (atWorkWhenLeft === null || answer.includes('upstream_timeout')) return []
  if (atWorkWhenLeft === 0) {
    // The text before the provider broke off is charged.
    return charge === null || tokensTaken > 0 ? [] : ['is charged, and nobody had its prompt when its client left']
  }
  if (charge === null) return ['left while its prompt was worked on, and is not charged']
  const output = Math.min(tokensRead, maxTokens ?? tokensRead)
  const least = costOf(served, admittedAtMs, promptCount(script.promptCharacters), 0, output)
  // A report may say less, and what was held may not be enough.
  if (hasReport || !isAmple || charge.cost >= least) return []
  return [`left with ${tokensRead} tokens, which cost ${least} with the prompt, and is charged ${charge.cost}`]
}
