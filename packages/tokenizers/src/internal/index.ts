export { tokensNextTo } from '../saved-tokens.js';
export { readJsonObject, readTextFile, settingsIn } from '../tokenizer-files.js';
