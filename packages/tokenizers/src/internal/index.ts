export { endOfText } from '../gpt2-vocabulary.js';
export { tokensNextTo } from '../saved-tokens.js';
export { tokenizerTypes } from '../tokenizer.js';
export { readJsonObject, readTextFile, settingsIn } from '../tokenizer-files.js';
