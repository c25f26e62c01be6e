/** Adds `amount` to what an owner has, or takes it away where it is negative. An owner with nothing has no entry. */
export function addAmount(amounts: Map<string, number>, owner: string, amount: number): void {
  const now = (amounts.get(owner) ?? 0) + amount
  if (now === 0) amounts.delete(owner)
  else amounts.set(owner, now)
}
