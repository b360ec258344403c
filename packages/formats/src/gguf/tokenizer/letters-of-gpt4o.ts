/** Returns a map from the characters of byte-level vocabularies to the bytes that they represent. */
function bytesByCharacter(): ReadonlyMap<string, number> {
  const isShown = (byte: number): boolean =>
    (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
  let next = 256;
  return new Map(
    Array.from({ length: 256 }, (_, byte) => [String.fromCharCode(isShown(byte) ? byte : next++), byte]),
  );
}

const isContinuation = (byte: number): boolean => (byte & 0xc0) === 0x80;

/** Returns true if `bytes` is an incomplete part of a UTF-8 character. A space before it is ignored. */
const isFragment = (bytes: Uint8Array): boolean =>
  (bytes[0] === 32 ? bytes.subarray(1) : bytes).every((byte, index) => index === 0 || isContinuation(byte));

const hasMark = /\p{M}/u;
const hasCapitalAfterSmallLetter = /\p{Ll}\p{L}*[\p{Lu}\p{Lt}]/u;
const isAscii = /^\p{ASCII}*$/u;

/**
 * Returns a token that a byte-level BPE with GPT-4o's pattern may form, but llama.cpp cannot, because
 * llama.cpp splits texts within the token. llama.cpp distinguishes capitals and small letters only in ASCII
 * (see llama-vocab.cpp), separates combining marks from their letters, and does not separate a capital
 * outside of ASCII from the letters before it. Returns undefined if there is no such token, which means that
 * both programs merge all texts equally.
 *
 * @param tokens the vocabulary's tokens, whose characters represent bytes
 */
export function tokenWithOtherMerges(tokens: Iterable<string>): string | undefined {
  const bytesOf = bytesByCharacter();
  const decoder = new TextDecoder('utf-8', { fatal: true });
  for (const token of tokens) {
    const bytes = Uint8Array.from(token, (character) => bytesOf.get(character) ?? 0);
    let text: string;
    try {
      text = decoder.decode(bytes);
    } catch {
      if (isFragment(bytes)) continue;
      return token;
    }
    const isCapitalOfOthers = !isAscii.test(text) && hasCapitalAfterSmallLetter.test(text);
    if (isCapitalOfOthers || (hasMark.test(text) && [...text].length > 1)) return text;
  }
  return undefined;
}
