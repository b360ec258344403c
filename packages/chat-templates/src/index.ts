export { ChatTemplate, type RenderedConversation, type TextSpan } from './chat-template.js';
export { type ChatMessage, contentForPeople } from './message.js';
export { type JsonValue, PythonFloat, parseJson } from './python/python-json.js';
export { openChatTemplate } from './saved-templates.js';
