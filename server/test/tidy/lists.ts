/** How a list of today's breaches differs from the code. */
export interface Differences {
  /** Breaches that the list does not have, or that are worse than it says, such as `name (80)`. */
  readonly worse: string[]
  /** Lines of the list that allow more than the code needs, such as `name (75 in place of 80)`. */
  readonly slack: string[]
}

/** Compares breaches, each by name with its size, with a list of those that are known. */
export function compareWithList(
  found: ReadonlyMap<string, number>,
  listed: Readonly<Record<string, number>>,
): Differences {
  const worse = [...found]
    .filter(([name, size]) => size > (listed[name] ?? 0))
    .map(([name, size]) => `${name} (${size})`)
  const slack = Object.entries(listed)
    .filter(([name, size]) => (found.get(name) ?? 0) < size)
    .map(([name, size]) => `${name} (${found.get(name) ?? 'gone'} in place of ${size})`)
  return { worse, slack }
}
