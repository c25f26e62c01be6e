/** Texts of many languages and shapes, for what depends on how tokenizers count them. */

const CODE = `export async function readAll(source: ReadableStream<Uint8Array>): Promise<string> {
    const decoder = new TextDecoder()
    let text = ''
    for await (const bytes of source) {
        if (bytes.byteLength === 0) {
            continue
        }
        text += decoder.decode(bytes, { stream: true })
    }
    return text + decoder.decode()
}
`

/** As people and programs lay out text: steps of indentation, blank lines, columns, rules, ends of lines. */
const BLANKS = `Name                Count          Share
-----------------------------------------
apples                 12          40.0 %
pears                  18          60.0 %


                                        total: 30

\t\t\tindented by tabs
\t\t\t\t\tand by more of them\r\n\r\n\r\n
{
                "deep": {
                                "deeper": {
                                                "deepest": []
                                }
                }
}

    `

/** The first article of the Universal Declaration of Human Rights, but for code and blanks. */
export const TEXTS = {
  English:
    'All human beings are born free and equal in dignity and rights. They are endowed with reason and conscience and should act towards one another in a spirit of brotherhood.',
  Hindi:
    'सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता और समानता प्राप्त है। उन्हें बुद्धि और अन्तरात्मा की देन प्राप्त है और परस्पर उन्हें भाईचारे के भाव से बर्ताव करना चाहिए।',
  Thai: 'มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกันในเกียรติศักดิ์และสิทธิ ต่างมีเหตุผลและมโนธรรม และควรปฏิบัติต่อกันด้วยเจตนารมณ์แห่งภราดรภาพ',
  Chinese: '人人生而自由,在尊严和权利上一律平等。他们赋有理性和良心,并应以兄弟关系的精神相对待。',
  Tamil:
    'மனிதப் பிறிவியினர் சகலரும் சுதந்திரமாகவே பிறக்கின்றனர்; அவர்கள் மதிப்பிலும், உரிமைகளிலும் சமமானவர்கள். அவர்கள் நியாயத்தையும் மனச்சாட்சியையும் இயற்பண்பாகப் பெற்றவர்கள்.',
  code: CODE,
  blanks: BLANKS,
} as const

/** Of nothing but one character again and again, as nobody writes. */
export const RUNS = {
  blanks: ' '.repeat(2_000),
  'no-break spaces': '\u00a0'.repeat(1_000),
  'wide blanks': '\u3000'.repeat(1_000),
  'ends of lines': '\n'.repeat(2_000),
  dashes: '-'.repeat(2_000),
  letters: 'a'.repeat(2_000),
} as const
