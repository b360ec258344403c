import { newerThanUnicode9 } from './unicode-versions.js';

// the scripts of Unicode 9; kana and kanji count as one script, because Japanese words mix them
const scripts = `
Adlam Ahom Anatolian_Hieroglyphs Arabic Armenian Avestan Balinese Bamum Bassa_Vah Batak Bengali Bhaiksuki
Bopomofo Brahmi Braille Buginese Buhid Canadian_Aboriginal Carian Caucasian_Albanian Chakma Cham Cherokee
Common Coptic Cuneiform Cypriot Cyrillic Deseret Devanagari Duployan Egyptian_Hieroglyphs Elbasan Ethiopic
Georgian Glagolitic Gothic Grantha Greek Gujarati Gurmukhi Han Hangul Hanunoo Hatran Hebrew Hiragana
Imperial_Aramaic Inherited Inscriptional_Pahlavi Inscriptional_Parthian Javanese Kaithi Kannada Katakana
Kayah_Li Kharoshthi Khmer Khojki Khudawadi Lao Latin Lepcha Limbu Linear_A Linear_B Lisu Lycian Lydian
Mahajani Malayalam Mandaic Manichaean Marchen Meetei_Mayek Mende_Kikakui Meroitic_Cursive
Meroitic_Hieroglyphs Miao Modi Mongolian Mro Multani Myanmar Nabataean New_Tai_Lue Newa Nko Ogham Ol_Chiki
Old_Hungarian Old_Italic Old_North_Arabian Old_Permic Old_Persian Old_South_Arabian Old_Turkic Oriya Osage
Osmanya Pahawh_Hmong Palmyrene Pau_Cin_Hau Phags_Pa Phoenician Psalter_Pahlavi Rejang Runic Samaritan
Saurashtra Sharada Shavian Siddham SignWriting Sinhala Sora_Sompeng Sundanese Syloti_Nagri Syriac Tagalog
Tagbanwa Tai_Le Tai_Tham Tai_Viet Takri Tamil Tangut Telugu Thaana Thai Tibetan Tifinagh Tirhuta Ugaritic
Vai Warang_Citi Yi
`
  .trim()
  .split(/\s+/);

const han = scripts.indexOf('Han');
/**
 * Characters whose script in the JavaScript engine differs from Unicode 9, with their scripts in Unicode 9.
 */
const exceptions: ReadonlyMap<string, number> = new Map([
  ['\u061c', scripts.indexOf('Common')],
  ['\u0589', scripts.indexOf('Common')],
  ['\u0953', scripts.indexOf('Devanagari')],
  ['\u0954', scripts.indexOf('Devanagari')],
  ['\u30fc', han],
]);
/** The value for the script of a space, or of a character without a script in Unicode 9. */
const anyScript = -1;

const newer = new RegExp(`[${newerThanUnicode9} ]`, 'u');
const patterns: RegExp[] = [];
const known = new Map<string, number>(exceptions);

function findScript(character: string): number {
  let script = known.get(character);
  if (script === undefined) {
    if (patterns.length === 0)
      patterns.push(...scripts.map((name) => new RegExp(`\\p{Script=${name}}`, 'u')));
    script = newer.test(character) ? anyScript : patterns.findIndex((pattern) => pattern.test(character));
    if (scripts[script] === 'Hiragana' || scripts[script] === 'Katakana') script = han;
    known.set(character, script);
  }
  return script;
}

/**
 * Splits a text where the script changes, as SentencePiece does. A space belongs to the script before it.
 *
 * @returns the start and end of each section, one section after the other. Text before the first script is in
 * no
 *   section
 */
export function splitAtScripts(text: string): number[] {
  const split: number[] = [];
  let last = anyScript;
  let at = 0;
  for (const character of text) {
    const script = findScript(character);
    if (script !== anyScript && script !== last) {
      if (split.length > 0) split.push(at);
      split.push(at);
      last = script;
    }
    at += character.length;
  }
  if (split.length > 0) split.push(at);
  return split;
}
