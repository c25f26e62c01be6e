/** Adds `bytes` to what an owner has, or takes them away where they are negative. An owner with nothing has no entry. */
export function addBytes(owners: Map<string, number>, owner: string, bytes: number): void {
  const now = (owners.get(owner) ?? 0) + bytes
  if (now === 0) owners.delete(owner)
  else owners.set(owner, now)
}
