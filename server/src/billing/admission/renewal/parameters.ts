/** The parameters of a renewal with their types, in the order in which they are sent. The lists go together, entry by entry. */
const TYPES = {
  organizations: 'text::uuid[]',
  admissions: 'text::bigint[]',
  leasts: 'text::bigint[]',
  extensions: 'text::bigint[]',
  givesBack: 'text::bigint[]',
  slot: 'integer',
  at: 'timestamptz',
  day: 'date',
  windowFrom: 'timestamptz',
  newAccountCapMicrocents: 'bigint',
  lowBalanceMicrocents: 'bigint',
  takenAt: 'timestamptz',
} as const

export type RenewalParameter = keyof typeof TYPES

/** The names of the parameters, in their order: the first is `$1`. */
export const RENEWAL_PARAMETERS = Object.keys(TYPES) as readonly RenewalParameter[]

/**
 * Each parameter as the statement writes it, such as `$6::integer`. A list stands in a subquery, so that PostgreSQL does not see its
 * length: it would take a plan for one organization for so much better than the general plan that it plans each renewal anew, which takes
 * six times as long as the renewal.
 */
export const PLACEHOLDERS = Object.fromEntries(
  RENEWAL_PARAMETERS.map((name, index) => {
    const [type, placeholder] = [TYPES[name], `$${index + 1}::${TYPES[name]}`]
    return [name, isList(type) ? `(select ${placeholder})::${type.replace('text::', '')}` : placeholder]
  }),
) as Readonly<Record<RenewalParameter, string>>

function isList(type: string): boolean {
  return type.endsWith('[]')
}
