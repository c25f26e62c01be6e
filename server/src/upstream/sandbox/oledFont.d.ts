/** A font of 5 by 7 points: for each character `width` bytes, one a column, the lowest bit at the top. */
declare module 'oled-font-5x7' {
  const font: {
    readonly width: number
    readonly height: number
    readonly fontData: readonly number[]
    readonly lookup: readonly string[]
  }
  export default font
}
