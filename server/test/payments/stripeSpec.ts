/** Holds an answer against the description of Stripe's API. */

/** A schema of OpenAPI 3.0, as far as Stripe's description uses it. */
export interface Schema {
  readonly $ref?: string
  readonly type?: string
  readonly nullable?: boolean
  readonly enum?: readonly unknown[]
  readonly anyOf?: readonly Schema[]
  readonly properties?: Readonly<Record<string, Schema>>
  readonly additionalProperties?: Schema | boolean
  readonly items?: Schema
}

export type Schemas = Readonly<Record<string, Schema>>

/** A field of an object that stands for nothing of Stripe's: the server that stands in for Stripe keeps it for itself. */
export type IsOwn = (object: unknown, field: string) => boolean

/**
 * Returns where a value differs from its schema, such as `data[0].status: not one of open, paid`. Fields that are missing do not differ: a
 * fixture has those alone that Tollgate reads.
 */
export function shapeFaults(schemas: Schemas, schema: Schema, value: unknown, isOwn: IsOwn, path = ''): string[] {
  const check = (other: Schema, inner: unknown, where: string) => shapeFaults(schemas, other, inner, isOwn, where)
  if (schema.$ref !== undefined) return check(schemas[schema.$ref.split('/').at(-1) ?? ''] ?? {}, value, path)
  if (value === null) return schema.nullable === true ? [] : [`${path}: may not be null`]
  if (schema.anyOf !== undefined) {
    const faults = schema.anyOf.map((each) => check(each, value, path))
    // Of several that do not fit, the nearest one tells most.
    return faults.toSorted((a, b) => a.length - b.length)[0] ?? []
  }
  if (schema.enum !== undefined && !schema.enum.includes(value)) {
    return [`${path}: ${JSON.stringify(value)} is not one of ${schema.enum.join(', ')}`]
  }
  if (schema.type !== undefined && !isOfType(schema.type, value)) return [`${path}: is no ${schema.type}`]
  if (Array.isArray(value)) {
    return value.flatMap((each, index) => check(schema.items ?? {}, each, `${path}[${index}]`))
  }
  if (typeof value !== 'object') return []
  const { properties, additionalProperties } = schema
  if (properties === undefined && typeof additionalProperties !== 'object') return []
  return Object.entries(value).flatMap(([field, inner]) => {
    const where = path === '' ? field : `${path}.${field}`
    const known = properties?.[field] ?? (typeof additionalProperties === 'object' ? additionalProperties : undefined)
    if (known !== undefined) return check(known, inner, where)
    return isOwn(value, field) ? [] : [`${where}: Stripe has no such field`]
  })
}

function isOfType(type: string, value: unknown): boolean {
  switch (type) {
    case 'array':
      return Array.isArray(value)
    case 'object':
      return typeof value === 'object' && !Array.isArray(value)
    case 'integer':
      return Number.isInteger(value)
    default:
      return typeof value === type
  }
}
