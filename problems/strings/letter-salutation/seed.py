def solve(contact, company):
    return contact
