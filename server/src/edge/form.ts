import type { FormField } from '../idempotency/fingerprint.ts'
import { refusal } from '../kernel/errors.ts'
import { ok, type Result, refused } from '../kernel/result.ts'

/** Whether a Content-Type announces a multipart form. */
export function isForm(contentType: string | null): contentType is string {
  return contentType !== null && /^multipart\/form-data\s*(;|$)/i.test(contentType)
}

/**
 * The fields of a multipart form, in order. A file among them is refused with `unsupported_parameter`, a body that is no
 * such form with `invalid_request` (E6).
 */
export async function parseForm(bytes: Uint8Array, contentType: string): Promise<Result<readonly FormField[]>> {
  let entries: FormData
  try {
    entries = await new Response(new Uint8Array(bytes), { headers: { 'Content-Type': contentType } }).formData()
  } catch {
    return refused(refusal('invalid_request', 'The request body is not the multipart form that its Content-Type says.'))
  }
  const fields: FormField[] = []
  for (const [name, value] of entries) {
    if (typeof value !== 'string') {
      const param = name.slice(0, 64)
      return refused(refusal('unsupported_parameter', `'${param}' is a file; files are not taken here.`, { param }))
    }
    fields.push({ name, value })
  }
  return ok(fields)
}
