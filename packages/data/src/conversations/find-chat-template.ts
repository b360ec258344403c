import { statSync } from 'node:fs';
import { dirname } from 'node:path';
import { ChatTemplate } from '@mtl/chat-templates';
import { readTemplateFile, savedTemplates } from '@mtl/chat-templates/internal';
import { DataError } from '@mtl/errors';
import { endOfText, type Tokenizer, type TokenizerOptions } from '@mtl/tokenizers';

/**
 * Returns the chat template of a tokenizer: the file that its options name, or a file next to its
 * tokenizer.json (see `openChatTemplate` of @mtl/chat-templates).
 *
 * @throws DataError MTL_CHAT_TEMPLATE if the tokenizer has no template, or an unusable template
 */
export function readChatTemplate(tokenizer: ChatTokenizer): ChatTemplate {
  const template = findChatTemplate(tokenizer);
  if (template !== undefined) return template;
  const directory = directoryOfTokenizer(tokenizer.options);
  const where = directory === undefined ? '' : ` of ${directory}`;
  throw new DataError('MTL_CHAT_TEMPLATE', `the tokenizer${where} has no chat template`, {
    expected: 'chat_template.jinja, or chat_template in tokenizer_config.json',
    remedy:
      'pass --chat-template FILE, a template in Jinja such as the template of an instruction-tuned model',
  });
}

/** The properties of a tokenizer that determine its chat template. */
type ChatTokenizer = Pick<Tokenizer, 'options' | 'specialIds' | 'specialTokens' | 'eod' | 'decode'>;

/**
 * Returns the chat template of a tokenizer like `readChatTemplate`, but returns undefined if the tokenizer
 * has no template.
 *
 * @throws DataError MTL_CHAT_TEMPLATE for a template that cannot be read or used
 */
export function findChatTemplate(tokenizer: ChatTokenizer): ChatTemplate | undefined {
  const { options } = tokenizer;
  const specialTokens = { ...endOfDocument(tokenizer), ...tokenizer.specialTokens };
  const path = options !== undefined && 'chatTemplate' in options ? options.chatTemplate : undefined;
  if (path !== undefined) return new ChatTemplate({ ...readTemplateFile(path), specialTokens });
  const directory = directoryOfTokenizer(options);
  return directory === undefined ? undefined : savedTemplates(directory)?.open(specialTokens);
}

/**
 * Returns the end-of-document token under the names that templates use. The tokenizer's files may override
 * it.
 */
function endOfDocument({ specialIds, eod, decode }: ChatTokenizer): Readonly<Record<string, string>> {
  if (specialIds === undefined) return { bos_token: endOfText, eos_token: endOfText };
  return { eos_token: decode([eod]) };
}

/** Returns the folder of the tokenizer's files; undefined for a tokenizer without files. */
export function directoryOfTokenizer(options: TokenizerOptions | undefined): string | undefined {
  if (options?.type !== 'HuggingFaceTokenizer') return undefined;
  const { tokenizerModel } = options;
  const isDirectory = statSync(tokenizerModel, { throwIfNoEntry: false })?.isDirectory() === true;
  return isDirectory ? tokenizerModel : dirname(tokenizerModel);
}
