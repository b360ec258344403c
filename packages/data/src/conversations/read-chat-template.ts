import { DataError } from '@mtl/errors';
import type { ChatTemplate } from './chat-template.js';
import { type ChatTokenizer, directoryOfTokenizer, findChatTemplate } from './find-chat-template.js';

/**
 * The chat template of a tokenizer: the file that its options name, or else `chat_template.jinja` or the
 * `chat_template` of tokenizer_config.json next to its tokenizer.json. Of several (a list there, or files in
 * `additional_chat_templates`) it is the one called `default`, and `tool_use` for conversations that have
 * functions.
 *
 * @throws DataError MTL_CHAT_TEMPLATE where it has none; those of `findChatTemplate`
 */
export function readChatTemplate(tokenizer: ChatTokenizer): ChatTemplate {
  const template = findChatTemplate(tokenizer);
  if (template !== undefined) return template;
  const directory = directoryOfTokenizer(tokenizer.options);
  const where = directory === undefined ? '' : ` of ${directory}`;
  throw new DataError('MTL_CHAT_TEMPLATE', `the tokenizer${where} has no chat template`, {
    expected: 'chat_template.jinja, or chat_template in tokenizer_config.json',
    remedy: 'pass --chat-template FILE, a template in Jinja such as that of an instruction-tuned model',
  });
}
