import type { TargetChoice } from '../catalog/model.ts'
import type { ProviderTarget } from '../providers/dialect/spec.ts'

/** The facts that the order of targets depends on. */
export interface Look {
  /** Calls that a target has open. */
  open(target: ProviderTarget): number
  /** Milliseconds for which it should be left alone; 0: none. */
  waitMs(target: ProviderTarget): number
  /** From 0 up to, and without, 1. */
  random(): number
}

/**
 * The order in which targets are asked: those that are well before those whose breaker is open, the others before backups,
 * and within that as `choice` says. A target whose breaker is open is still better than none, so none is left out; the one
 * whose pause ends first comes first.
 */
export function orderOf(
  targets: readonly ProviderTarget[],
  choice: TargetChoice,
  look: Look,
): readonly ProviderTarget[] {
  if (targets.length < 2) return targets
  const ranked = targets.map((target, position) => ({
    target,
    waitMs: look.waitMs(target),
    isBackup: target.backup === true,
    rank: rankOf(target, position, choice, look),
    draw: choice === 'in_order' ? position : drawOf(target, look),
  }))
  ranked.sort(
    (a, b) => a.waitMs - b.waitMs || Number(a.isBackup) - Number(b.isBackup) || a.rank - b.rank || a.draw - b.draw,
  )
  return ranked.map(({ target }) => target)
}

function rankOf(target: ProviderTarget, position: number, choice: TargetChoice, look: Look): number {
  if (choice === 'in_order') return position
  return choice === 'least_busy' ? look.open(target) / (target.weight ?? 1) : 0
}

/** Sorting by these draws gives each target the first place as often as its share of the weights (Efraimidis, Spirakis). */
function drawOf(target: ProviderTarget, look: Look): number {
  return -Math.log(1 - look.random()) / (target.weight ?? 1)
}
