/** The columns that are added up, of `usage_hours` and of their sums. Pure. */

export const SUMMED = [
  'requests',
  'prompt_tokens',
  'cached_prompt_tokens',
  'completion_tokens',
  'image_count',
  'video_seconds',
  'cost_microcents',
]
export const SUM_COLUMNS = SUMMED.join(', ')
export const SUMS_OF_COLUMNS = SUMMED.map((column) => `sum(${column})::bigint as ${column}`).join(', ')
