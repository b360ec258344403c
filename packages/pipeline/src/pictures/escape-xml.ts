/** Words as they can stand in XML. */
export function escapeXml(words: string): string {
  const names: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };
  // Control characters have no place in XML, escaped or not.
  return [...words].map((c) => (c < ' ' ? ' ' : (names[c] ?? c))).join('');
}
