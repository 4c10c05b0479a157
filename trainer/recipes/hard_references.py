"""For hand-written problems of the suite `strings`: one right program each, in the language of the model.

Ours, written by hand; they say that a task can be solved and are read by nothing that searches or trains.
"""

REFERENCES: dict[str, str] = {
    "address-with-unit": "x0 + ' (house)' if x1 == '' else 'Apt ' + x1 + ', ' + x0",
    "amount-with-currency": "'¥' + x0.split('.')[0] if x1 == 'JPY' else x0 + ' ' + x1",
    "article-name": "x0.split('\"')[1] if '\"' in x0 else x0.split()[0]",
    "backup-file-name": "x0.rpartition('.')[0] + '_backup.' + "
    "x0.rpartition('.')[2] if '.' in x0 else x0 + '_backup'",
    "base-name": "x0.replace('\\\\', '/').rpartition('/')[2]",
    "best-contact": "'mobile ' + x0 if x0 != '' else 'home ' + x1 if x1 != '' else 'mail ' + x2",
    "chat-line": "x0.partition('] * ')[2] if '] * ' in x0 else "
    "x0.partition('] ')[2].partition(':')[0] + ' wrote'",
    "citation-short-form": "x0.split(',')[0] + (' et al., ' if ';' in x0 else ', ') + x0[-5:-1]",
    "city-abroad": "x0.split(' (')[1][:-1] + ': ' + x0.split(' (')[0] if '(' in x0 else x0 + ', domestic'",
    "course-code-with-lab": "'Lab ' + x0[:-4] + ' ' + x0[-4:-1] if x0.endswith('L') else "
    "x0[:-3] + ' ' + x0[-3:]",
    "date-precision": "'.'.join(x0.split('-')[::-1]) if x0.count('-') > 1 else "
    "'/'.join(x0.split('-')[::-1]) if '-' in x0 else 'year ' + x0",
    "date-to-iso": "'-'.join(x0.split('.')[::-1])",
    "date-with-leading-zeros": "'-'.join([w.zfill(2) for w in x0.split('/')[::-1]])",
    "day-and-month": "x0[3:5] + '.' + x0[:2] + '. (US)' if '/' in x0 else x0[8:] + '.' + x0[5:7] + '.'",
    "dimensions-with-signs": "x0.replace('x', ' × ')",
    "email-masked": "x0[0] + '***@' + x0.partition('@')[2]",
    "email-to-person": "x0.partition('@')[0].replace('.', ' ').title() if '.' in x0.partition('@')[0] "
    "else 'Mailbox ' + x0.partition('@')[0]",
    "email-with-tag": "x0.partition('+')[0] + '@' + x0.partition('@')[2] + ' [' + "
    "x0.partition('+')[2].partition('@')[0] + ']' if '+' in x0 else x0",
    "employment-period": "'since ' + x0[:-1] if x0.endswith('-') else 'until ' + x0.partition('-')[2]",
    "file-kind": "'image: ' + x0[:-4] if x0.endswith('.jpg') else "
    "'sound: ' + x0[:-4] if x0.endswith('.mp3') else 'other: ' + x0",
    "file-or-folder": "x0.rpartition('.')[2].upper() + ' file' if '.' in x0 else "
    "'folder ' + x0.rpartition('/')[2]",
    "hashtags-as-list": "', '.join(re.findall('#(\\\\w+)', x0))",
    "house-number-first": "x0 if x0[0].isdigit() else x0.split()[-1] + ' ' + ' '.join(x0.split()[:-1])",
    "invoice-number": "'INV-' + x0 + '-' + x1.zfill(4)",
    "isbn-core": "x0.replace('-', '')[-10:-1]",
    "latitude-with-hemisphere": "x0.replace('-', '') + '° S' if '-' in x0 else x0 + '° N'",
    "letter-salutation": "'Dear team at ' + x1 + ',' if x0 == '' else 'Dear ' + x0 + ','",
    "link-in-markdown": "x0 if x1 == '' else '[' + x0 + '](' + x1 + ')'",
    "list-first-and-rest": "x0.split(', ')[0] + ' +' + str(len(x0.split(', ')) - 1) + ' more' if ',' in x0 "
    "else x0 + ' only'",
    "list-with-and": "' and '.join(x0.rsplit(', ', 1))",
    "log-line-result": "'failed ' + re.findall('\\\\d+', x0)[0] if x0.startswith('ERROR') else 'ok'",
    "match-winner": "x0 if int(x2.split(':')[0]) > int(x2.split(':')[1]) else x1",
}
