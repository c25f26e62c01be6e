/**
 * Returns what `work` makes of each value, in their order, with at most `atOnce` of it under way. Rejects with the first failure; then no
 * more begins.
 */
export async function mapAtMost<Value, Result>(
  values: readonly Value[],
  atOnce: number,
  work: (value: Value) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = []
  const left = values.entries()
  let hasFailed = false
  const goOn = async () => {
    for (const [index, value] of left) {
      if (hasFailed) return
      try {
        results[index] = await work(value)
      } catch (error) {
        hasFailed = true
        throw error
      }
    }
  }
  await Promise.all(Array.from({ length: Math.min(atOnce, values.length) }, goOn))
  return results
}
