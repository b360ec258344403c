/**
 * The printable stand-ins of bytes in byte-level BPE vocabularies (GPT-2): bytes that print in Latin-1 stand
 * for themselves, the others are moved to U+0100 and on.
 */
export const byteAlphabet: readonly string[] = makeByteAlphabet();

function makeByteAlphabet(): string[] {
  const prints = (byte: number) =>
    (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || (byte >= 0xae && byte <= 0xff);
  let moved = 256;
  return Array.from({ length: 256 }, (_, byte) => String.fromCharCode(prints(byte) ? byte : moved++));
}
