export { ChatTemplate } from './chat-template.js';
export { chatTokens, endOfTurn } from './chat-tokens.js';
export { type ChatMessage, contentForPeople } from './conversation.js';
export { ConversationDataset } from './conversation-dataset.js';
export { type ConversationCounts, longConversationRules } from './encode-conversations.js';
export { findChatTemplate, readChatTemplate } from './find-chat-template.js';
export {
  type ConversationDatasets,
  type ConversationFiles,
  type ConversationPart,
  conversationDatasets,
} from './pack-conversation-files.js';
export { readConversations } from './read-conversations.js';
