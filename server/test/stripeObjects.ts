/** The nouns of the server that stands in for Stripe. */

export type StripeObject = { id: string; object: string } & Record<string, unknown>

/** Fields as they came, by their names, such as `line_items[0][quantity]`. */
export type StripeFields = ReadonlyMap<string, string>

export interface StripeAnswer {
  readonly status: number
  readonly json: object
}

export function answeredOk(json: object): StripeAnswer {
  return { status: 200, json }
}

/** The fields of one object, such as those of `metadata[…]`. */
export function stripeSection(fields: StripeFields, name: string): Record<string, string> {
  const entries = [...fields].filter(([key]) => key.startsWith(`${name}[`))
  return Object.fromEntries(entries.map(([key, value]) => [key.slice(name.length + 1, -1), value]))
}
