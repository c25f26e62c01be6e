import { describe, expect, test } from 'bun:test'
import { parseForm } from './form.ts'

const PARTS_MOST = 3

const formOf = (boundary: string, names: readonly string[]) =>
  `${names.map((name) => `--${boundary}\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n1\r\n`).join('')}--${boundary}--\r\n`

const parse = async (contentType: string, body: string) => {
  const parsed = await parseForm(new TextEncoder().encode(body), contentType, PARTS_MOST)
  return parsed.ok ? parsed.value.fields.map(({ name }) => name) : parsed.refusal.message
}

const LONG = 'b'.repeat(70)

describe('the boundary of a form', () => {
  test.each([
    ['multipart/form-data; boundary=b', 'b'],
    ['Multipart/Form-Data ;Boundary=B', 'B'],
    ['multipart/form-data; charset=utf-8; boundary="b"', 'b'],
    ['multipart/form-data; boundary=b; charset="utf-8";', 'b'],
    ['multipart/form-data; boundary="----=_Part_0 (1):2,3/4?5"', '----=_Part_0 (1):2,3/4?5'],
    ['multipart/form-data; boundary="boundary=b"', 'boundary=b'],
    ['multipart/form-data; boundary=----=_Part_0', '----=_Part_0'],
    ['multipart/form-data; boundary=----WebKitFormBoundaryAbC', '----WebKitFormBoundaryAbC'],
    [`multipart/form-data; boundary=${LONG}`, LONG],
  ])('%s', async (contentType, boundary) => {
    expect(await parse(contentType, formOf(boundary, ['a', 'b', 'c']))).toEqual(['a', 'b', 'c'])
    expect(await parse(contentType, formOf(boundary, ['a', 'b', 'c', 'd']))).toMatch(/more than 3 parts/)
  })

  test.each([
    ['multipart/form-data; x="; boundary=b"; boundary=z'],
    ['multipart/form-data; boundary=z; x="; boundary=b"'],
    ['multipart/form-data; charset="; boundary=b"; boundary=z; x=y'],
    ['multipart/form-data; boundary=b; boundary=z'],
    ['multipart/form-data; boundary=b; BOUNDARY=z'],
    ['multipart/form-data; charset=a; charset=b; boundary=z'],
    ['multipart/form-data; boundary="\\"; boundary=z'],
    ['multipart/form-data; boundary="z'],
    ['multipart/form-data; boundary=z"'],
    ['multipart/form-data; boundary=z, multipart/form-data; boundary=b'],
    ['multipart/form-data; boundary = z'],
    ['multipart/form-data; boundary=z b'],
    ['multipart/form-data; boundary="z "'],
    ['multipart/form-data; boundary=z*'],
    [`multipart/form-data; boundary=${LONG}b`],
    ['multipart/form-data; boundary=""'],
    ['multipart/form-data; boundary='],
    ['multipart/form-data; charset=utf-8'],
    ['multipart/form-data;'],
    ['multipart/form-data'],
  ])('%s is refused', async (contentType) => {
    expect(await parse(contentType, formOf('z', ['a']))).toMatch(/one boundary of 1 to 70 characters/)
  })

  test('is the same for the count and for the parser, inside of another parameter too', async () => {
    const body = formOf('z', ['a', 'b', 'c', 'd'])
    expect(await parse('multipart/form-data; charset="; boundary=b"; boundary=z', body)).toMatch(/more than 3 parts/)
  })
})

test('a field that is not UTF-8 is refused, one that holds the replacement character is not', async () => {
  const bytesOf = (value: string, encoding: 'latin1' | 'utf8') =>
    new Uint8Array(Buffer.from(formOf('b', ['a']).replace('\r\n1\r\n', `\r\n${value}\r\n`), encoding))
  const type = 'multipart/form-data; boundary=b'
  const wrong = await parseForm(bytesOf('caf\xe9', 'latin1'), type, PARTS_MOST)
  expect(wrong.ok ? wrong.value : wrong.refusal.message).toBe('The request body is not valid UTF-8.')
  const replaced = await parseForm(bytesOf('\ufffd', 'utf8'), type, PARTS_MOST)
  expect(replaced.ok ? replaced.value.fields : replaced.refusal).toEqual([{ name: 'a', value: '\ufffd' }])
})

test('parts without a name count', async () => {
  const body = `${'--b\r\nX: y\r\n\r\n1\r\n'.repeat(4)}--b--\r\n`
  expect(await parse('multipart/form-data; boundary=b', body)).toMatch(/more than 3 parts/)
})

describe('parts of a form', () => {
  const TYPE = 'multipart/form-data; boundary=b'
  const NAMED = 'Content-Disposition: form-data; name="a"'
  const part = (head: string, value = '1') => `--b\r\n${head}\r\n\r\n${value}\r\n`
  const END = '--b--\r\n'

  test.each([
    ['no name', part('Content-Disposition: form-data')],
    ['an empty name', part('Content-Disposition: form-data; name=""')],
    ['a file of no name', part('Content-Disposition: form-data; filename="x"')],
    ['an attachment', part('Content-Disposition: attachment; name="a"')],
    ['an attachment that is a file', part('Content-Disposition: attachment; name="a"; filename="x"')],
    ['another header alone', part('X: y')],
    ['a space before the colon', part('Content-Disposition : form-data; name="a"')],
    [
      'two names, of which the parser takes the last',
      part(`${NAMED}\r\nX: y\r\ncontent-disposition:form-data; name="z"`),
    ],
    ['a NUL in its name, at which the parser ends it', part('Content-Disposition: form-data; name="a\0b"')],
    ['another control character in its head', part(`${NAMED}\r\nX: a\x1bb`)],
    ['a space after the delimiter', part(NAMED).replace('--b', '--b ')],
    ['lines that end with LF alone', part(NAMED).replaceAll('\r\n', '\n')],
    ['lines that end with LF alone, among others', `--b\n${NAMED}\n\n1\n`],
    ['no name, and a delimiter in its value', part('X: y', `1--b\r\n${NAMED}\r\n\r\n2`)],
  ])('are refused with %s', async (_name, wrong) => {
    expect(await parse(TYPE, wrong + END)).toMatch(/a part that can not be read as one field/)
    expect(await parse(TYPE, part('Content-Disposition: form-data; name="c"') + wrong + END)).toMatch(/as one field/)
  })

  test.each([
    ['the delimiter in a line', part(NAMED, 'x --b y')],
    ['the delimiter and more at the start of a line', part(NAMED, '--bx\r\n --b--')],
    ['the header of a part in the value', part(NAMED, `x\r\n\r\n${NAMED}\r\n${NAMED}`)],
    ['other headers', part(`Content-Type: text/plain\r\n${NAMED}\r\nX-Content-Disposition: x`)],
    ['a preamble', `Content-Disposition: x\r\n\r\n${part(NAMED)}`],
    ['an empty value', part(NAMED, '')],
    ['the header in other letters', part('CONTENT-DISPOSITION:FORM-DATA;NAME="a"')],
  ])('may have %s', async (_name, good) => {
    expect(await parse(TYPE, good + END)).toEqual(['a'])
  })

  test('may be none', async () => {
    expect(await parse(TYPE, END)).toEqual([])
  })

  test('that are files come as names of 64 characters at most, beside the fields', async () => {
    const file = (name: string) => part(`Content-Disposition: form-data; name="${name}"; filename="x"`, '\xff')
    const bytes = new Uint8Array(Buffer.from(file('f') + part(NAMED) + file('g'.repeat(65)) + END, 'latin1'))
    const parsed = await parseForm(bytes, TYPE, PARTS_MOST)
    expect(parsed).toEqual({
      ok: true,
      value: { fields: [{ name: 'a', value: '1' }], files: ['f', 'g'.repeat(64)] },
    })
  })
})
